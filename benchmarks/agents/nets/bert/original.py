"""An encoder for token ids, types and a mask of 0 and 1, each (N, T), T up to 40; three scores for a text."""

import math

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 32
HEADS = 4
DEPTH = 2
VOCABULARY = 83


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.dense = nn.Linear(WIDTH, WIDTH)
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-12)
        self.intermediate = nn.Linear(WIDTH, 3 * WIDTH)
        self.output = nn.Linear(3 * WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, x, bias):
        n, t, _ = x.shape
        q, k, v = (f(x).view(n, t, HEADS, -1).transpose(1, 2) for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, WIDTH)
        x = self.norm1(x + self.dense(y))
        return self.norm2(x + self.output(F.gelu(self.intermediate(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(42, WIDTH)
        self.types = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-12)
        self.layers = nn.ModuleList([Layer() for _ in range(DEPTH)])
        self.pooler = nn.Linear(WIDTH, WIDTH)
        self.score = nn.Linear(2 * WIDTH, 3)

    def forward(self, ids, types, mask):
        positions = torch.cumsum(mask, 1) * mask + 1
        x = self.norm(self.words(ids) + self.positions(positions) + self.types(types))
        bias = (1.0 - mask[:, None, None, :].float()) * -10000.0
        for layer in self.layers:
            x = layer(x, bias)
        weights = mask[:, :, None].float()
        mean = (x * weights).sum(1) / weights.sum(1)
        return self.score(torch.cat([torch.tanh(self.pooler(x[:, 0])), mean], 1))


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, ids, types, mask):
    with torch.no_grad():
        return net(*(torch.from_numpy(x) for x in (ids, types, mask))).numpy()
