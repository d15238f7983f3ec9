"""A decoder with rotary positions and grouped heads for token ids (N, T), T up to 64."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 32
HEADS = 4
GROUPS = 2
DEPTH = 2
WINDOW = 20
VOCABULARY = 71
THETA = 50000.0


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotate(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        size = WIDTH // HEADS
        self.input_layernorm = Norm()
        self.q_proj = nn.Linear(WIDTH, HEADS * size, bias=False)
        self.k_proj = nn.Linear(WIDTH, GROUPS * size, bias=False)
        self.v_proj = nn.Linear(WIDTH, GROUPS * size, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.post_attention_layernorm = Norm()
        self.gate_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.up_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.down_proj = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x, cos, sin, mask):
        n, t, _ = x.shape
        y = self.input_layernorm(x)
        q = rotate(self.q_proj(y).view(n, t, HEADS, -1).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(y).view(n, t, GROUPS, -1).transpose(1, 2), cos, sin)
        v = self.v_proj(y).view(n, t, GROUPS, -1).transpose(1, 2)
        k = k.repeat_interleave(HEADS // GROUPS, 1)
        v = v.repeat_interleave(HEADS // GROUPS, 1)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.o_proj(y.transpose(1, 2).reshape(n, t, -1))
        y = self.post_attention_layernorm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = Norm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        t, size = ids.shape[1], WIDTH // HEADS
        frequency = 1 / THETA ** (torch.arange(0, size, 2) / size)
        angles = torch.arange(t)[:, None] * frequency
        angles = torch.cat([angles, angles], -1)
        place = torch.arange(t)
        distance = place[:, None] - place
        mask = (distance >= 0) & (distance < WINDOW)
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin(), mask)
        return self.lm_head(self.norm(x))


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
