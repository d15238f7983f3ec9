"""Inverted residuals for pictures (N, 3, H, W) of any size from 16 on, padded as TensorFlow pads."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 8
CLASSES = 10


def same(x, size, stride):
    """Pad by TensorFlow's SAME: an odd pixel goes to the right and the bottom."""
    pads = []
    for length in (x.shape[3], x.shape[2]):
        total = max((-(-length // stride) - 1) * stride + size - length, 0)
        pads += [total // 2, total - total // 2]
    return F.pad(x, pads)


class Unit(nn.Module):
    def __init__(self, inputs, outputs, size, stride):
        super().__init__()
        wide = 3 * inputs
        self.expand = nn.Conv2d(inputs, wide, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide, eps=1e-3)
        self.depthwise = nn.Conv2d(wide, wide, size, stride=stride, groups=wide, bias=False)
        self.bn2 = nn.BatchNorm2d(wide, eps=1e-3)
        self.squeeze = nn.Conv2d(wide, 4, 1)
        self.excite = nn.Conv2d(4, wide, 1)
        self.project = nn.Conv2d(wide, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs, eps=1e-3)
        self.size, self.stride = size, stride
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        y = F.relu6(self.bn1(self.expand(x)))
        y = self.depthwise(same(y, self.size, self.stride))
        y = F.hardswish(self.bn2(y))
        gate = self.excite(F.relu(self.squeeze(y.mean((2, 3), keepdim=True))))
        y = self.bn3(self.project(y * F.hardsigmoid(gate)))
        return x + y if self.is_residual else y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, WIDTH, 3, stride=2, bias=False)
        self.bn = nn.BatchNorm2d(WIDTH, eps=1e-3)
        self.units = nn.ModuleList(
            [Unit(WIDTH, WIDTH, 3, 1), Unit(WIDTH, 2 * WIDTH, 5, 2), Unit(2 * WIDTH, 2 * WIDTH, 3, 1)]
        )
        self.fc = nn.Linear(2 * WIDTH, CLASSES)

    def forward(self, x):
        x = F.hardswish(self.bn(self.conv(same(x, 3, 2))))
        for unit in self.units:
            x = unit(x)
        return self.fc(x.mean((2, 3)))


def load(path):
    net = Net()
    net.load_state_dict(load_file(path), strict=False)
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
