"""A GPT with learned positions for token ids (N, T), T up to CONTEXT; odd blocks look back WINDOW tokens."""

import math

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 32
HEADS = 4
DEPTH = 3
WINDOW = 12
CONTEXT = 40
VOCABULARY = 67


class Attention(nn.Module):
    def __init__(self, window):
        super().__init__()
        self.c_attn = nn.Linear(WIDTH, 3 * WIDTH)
        self.c_proj = nn.Linear(WIDTH, WIDTH)
        self.window = window

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (part.view(n, t, HEADS, -1).transpose(1, 2) for part in self.c_attn(x).split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS)
        place = torch.arange(t)
        distance = place[:, None] - place[None, :]
        allowed = (distance >= 0) & (distance < self.window)
        scores = scores.masked_fill(~allowed, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.c_proj(y.transpose(1, 2).reshape(n, t, WIDTH))


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.ln_1 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.attn = Attention(WINDOW if index % 2 else CONTEXT)
        self.ln_2 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.c_fc = nn.Linear(WIDTH, 4 * WIDTH)
        self.c_proj = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList([Block(i) for i in range(DEPTH)])
        self.ln_f = nn.LayerNorm(WIDTH, eps=1e-5)

    def forward(self, ids):
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.ln_f(x) @ self.wte.weight.T


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
