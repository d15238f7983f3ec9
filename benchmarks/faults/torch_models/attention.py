"""One block of a transformer, as ``onnx_nets.attention``."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(16, eps=1e-05)
        self.q = nn.Linear(16, 16, bias=False)
        self.k = nn.Linear(16, 16, bias=False)
        self.v = nn.Linear(16, 16, bias=False)
        self.attend = nn.Softmax(dim=-1)
        self.norm2 = nn.LayerNorm(16, eps=1e-05)
        self.up = nn.Linear(16, 32)
        self.gelu = nn.GELU(approximate="none")
        self.down = nn.Linear(32, 16, bias=False)

    def forward(self, data):
        x = self.norm1(data)
        q = self.q(x)
        k = self.k(x)
        v = self.v(x)
        turned = torch.transpose(k, 1, 2)
        scores = torch.matmul(q, turned)
        scaled = torch.mul(scores, 0.25)
        weights = self.attend(scaled)
        mixed = torch.matmul(weights, v)
        x = torch.add(data, mixed)
        y = self.norm2(x)
        y = self.up(y)
        y = self.gelu(y)
        y = self.down(y)
        return torch.add(x, y)
