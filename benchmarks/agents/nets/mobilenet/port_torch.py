"""Port: the inverted residuals as functions of the stored arrays."""

import math

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 8
CLASSES = 10

UNITS = ((WIDTH, WIDTH, 3, 1), (WIDTH, 2 * WIDTH, 5, 2), (2 * WIDTH, 2 * WIDTH, 3, 1))


def conv_same(x, weight, stride=1, groups=1):
    size = weight.shape[-1]
    height, width = x.shape[-2:]
    rows = max((math.ceil(height / stride) - 1) * stride + size - height, 0)
    columns = max((math.ceil(width / stride) - 1) * stride + size - width, 0)
    x = F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
    return F.conv2d(x, weight, stride=stride, groups=groups)


def hard_sigmoid(x):
    return torch.clamp(x / 6 + 0.5, 0, 1)


class Mobile(nn.Module):
    def __init__(self, w):
        super().__init__()
        for name, x in w.items():
            self.register_buffer(name.replace(".", "__"), x)

    def get(self, *names):
        return getattr(self, "__".join(names))

    def norm(self, x, *names):
        mean, var = self.get(*names, "running_mean"), self.get(*names, "running_var")
        return F.batch_norm(x, mean, var, self.get(*names, "weight"), self.get(*names, "bias"), eps=1e-3)

    def unit(self, x, index, inputs, outputs, stride):
        at = ("units", str(index))
        y = self.norm(F.conv2d(x, self.get(*at, "expand", "weight")), *at, "bn1")
        y = y.clamp(0, 6)
        y = conv_same(y, self.get(*at, "depthwise", "weight"), stride, groups=3 * inputs)
        y = self.norm(y, *at, "bn2")
        y = y * hard_sigmoid(y)
        gate = F.adaptive_avg_pool2d(y, 1)
        gate = F.conv2d(gate, self.get(*at, "squeeze", "weight"), self.get(*at, "squeeze", "bias"))
        gate = F.conv2d(gate.relu(), self.get(*at, "excite", "weight"), self.get(*at, "excite", "bias"))
        y = y * hard_sigmoid(gate)
        y = self.norm(F.conv2d(y, self.get(*at, "project", "weight")), *at, "bn3")
        return y + x if stride == 1 and inputs == outputs else y

    def forward(self, images):
        x = self.norm(conv_same(images, self.get("conv", "weight"), 2), "bn")
        x = x * hard_sigmoid(x)
        for index, (inputs, outputs, _, stride) in enumerate(UNITS):
            x = self.unit(x, index, inputs, outputs, stride)
        x = x.mean(dim=(-2, -1))
        return F.linear(x, self.get("fc", "weight"), self.get("fc", "bias"))


def load(path):
    return Mobile(load_file(path)).eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
