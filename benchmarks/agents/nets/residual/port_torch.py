"""Port: the residual net with batch norms as a scale and a shift, computed once."""

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn

WIDTH = 8
CLASSES = 10


class ConvBN(nn.Module):
    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs, size, size))
        self.scale = nn.Parameter(torch.ones(outputs))
        self.shift = nn.Parameter(torch.zeros(outputs))
        self.stride = stride

    def forward(self, x):
        y = F.conv2d(x, self.weight, stride=self.stride, padding=self.weight.shape[-1] // 2)
        return y * self.scale[:, None, None] + self.shift[:, None, None]

    def take(self, w, conv, norm):
        scale = w[f"{norm}.weight"] / torch.sqrt(w[f"{norm}.running_var"] + 1e-5)
        self.weight.data = w[f"{conv}.weight"]
        self.scale.data = scale
        self.shift.data = w[f"{norm}.bias"] - w[f"{norm}.running_mean"] * scale


class Bottleneck(nn.Module):
    def __init__(self, inputs, middle, down, project):
        super().__init__()
        self.down = down
        step = 2 if down else 1
        self.reduce = ConvBN(inputs, middle, 1)
        self.spatial = ConvBN(middle, middle, 3, stride=step)
        self.expand = ConvBN(middle, 4 * middle, 1)
        self.project = ConvBN(inputs, 4 * middle, 1) if project else None

    def forward(self, x):
        y = torch.relu(self.reduce(x))
        y = torch.relu(self.spatial(y))
        y = self.expand(y)
        if self.project is None:
            return torch.relu(y + x)
        if self.down:
            x = F.avg_pool2d(x, kernel_size=2, stride=2, ceil_mode=True, count_include_pad=False)
        return torch.relu(y + self.project(x))


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBN(3, WIDTH, 7, stride=2)
        self.stage1 = nn.Sequential(
            Bottleneck(WIDTH, WIDTH, False, True), Bottleneck(4 * WIDTH, WIDTH, False, False)
        )
        self.stage2 = nn.Sequential(
            Bottleneck(4 * WIDTH, 2 * WIDTH, True, True), Bottleneck(8 * WIDTH, 2 * WIDTH, False, False)
        )
        self.head = nn.Linear(8 * WIDTH, CLASSES)

    def forward(self, images):
        y = torch.relu(self.stem(images))
        y = F.max_pool2d(y, kernel_size=3, stride=2, padding=1)
        y = self.stage2(self.stage1(y))
        return self.head(F.adaptive_avg_pool2d(y, 1).flatten(1))


def load(path):
    w = load_file(path)
    net = ResidualNet()
    net.stem.take(w, "conv", "bn")
    for i, block in enumerate([*net.stage1, *net.stage2]):
        block.reduce.take(w, f"blocks.{i}.conv1", f"blocks.{i}.bn1")
        block.spatial.take(w, f"blocks.{i}.conv2", f"blocks.{i}.bn2")
        block.expand.take(w, f"blocks.{i}.conv3", f"blocks.{i}.bn3")
        if block.project is not None:
            block.project.take(w, f"blocks.{i}.short", f"blocks.{i}.bn4")
    net.head.weight.data = w["fc.weight"]
    net.head.bias.data = w["fc.bias"]
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
