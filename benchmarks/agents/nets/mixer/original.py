"""An MLP-mixer for pictures (N, 3, 24, 32)."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 24
DEPTH = 3
TOKENS = 48
CLASSES = 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.token1 = nn.Linear(TOKENS, 32)
        self.token2 = nn.Linear(32, TOKENS)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.channel1 = nn.Linear(WIDTH, 4 * WIDTH)
        self.channel2 = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        y = self.norm1(x).transpose(1, 2)
        x = x + self.token2(F.gelu(self.token1(y))).transpose(1, 2)
        return x + self.channel2(F.gelu(self.channel1(self.norm2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, WIDTH, 4, stride=4)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = self.patch((x - 0.5) / 0.25).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
