"""Port: the decoder with fused projections and complex rotations."""

import math

import torch
from safetensors.torch import load_file
from torch import nn

WIDTH = 32
HEADS = 4
GROUPS = 2
DEPTH = 2
WINDOW = 20
VOCABULARY = 71
THETA = 50000.0
SIZE = WIDTH // HEADS


def rms(x, weight, eps=1e-5):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def turn(x, phases):
    """Rotate (n, t, heads, size): feature i goes with feature i + size / 2."""
    pairs = torch.complex(x[..., : SIZE // 2], x[..., SIZE // 2 :]) * phases[:, None]
    return torch.cat([pairs.real, pairs.imag], -1)


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.Parameter(torch.ones(WIDTH))
        self.between = nn.Parameter(torch.ones(WIDTH))
        self.wqkv = nn.Linear(WIDTH, (HEADS + 2 * GROUPS) * SIZE, bias=False)
        self.wo = nn.Linear(WIDTH, WIDTH, bias=False)
        self.w13 = nn.Linear(WIDTH, 6 * WIDTH, bias=False)
        self.w2 = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, h, phases, bias):
        n, t, _ = h.shape
        fused = self.wqkv(rms(h, self.before)).view(n, t, -1, SIZE)
        q, k, v = fused.split([HEADS, GROUPS, GROUPS], 2)
        q, k = turn(q, phases), turn(k, phases)
        q = q.view(n, t, GROUPS, HEADS // GROUPS, SIZE)
        scores = torch.einsum("nqgrd,nkgd->ngrqk", q, k) / math.sqrt(SIZE) + bias
        mixed = torch.einsum("ngrqk,nkgd->nqgrd", scores.softmax(-1), v)
        h = h + self.wo(mixed.reshape(n, t, WIDTH))
        gate, up = self.w13(rms(h, self.between)).chunk(2, -1)
        return h + self.w2(gate * torch.sigmoid(gate) * up)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.stack = nn.ModuleList([DecoderLayer() for _ in range(DEPTH)])
        self.last = nn.Parameter(torch.ones(WIDTH))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        t = tokens.shape[1]
        inverse = THETA ** -(torch.arange(0, SIZE, 2).float() / SIZE)
        angles = torch.outer(torch.arange(t).float(), inverse)
        phases = torch.polar(torch.ones_like(angles), angles)
        bias = torch.where(torch.ones(t, t, dtype=torch.bool).triu(1 - WINDOW).tril(), 0.0, float("-inf"))
        h = self.table(tokens)
        for layer in self.stack:
            h = layer(h, phases, bias)
        return self.head(rms(h, self.last))


def load(path):
    w = load_file(path)
    state = {
        "table.weight": w["embed_tokens.weight"],
        "last": w["norm.weight"],
        "head.weight": w["lm_head.weight"],
    }
    for i in range(DEPTH):
        old, new = f"layers.{i}", f"stack.{i}"
        state[f"{new}.before"] = w[f"{old}.input_layernorm.weight"]
        state[f"{new}.between"] = w[f"{old}.post_attention_layernorm.weight"]
        state[f"{new}.wqkv.weight"] = torch.cat([w[f"{old}.{name}_proj.weight"] for name in "qkv"])
        state[f"{new}.wo.weight"] = w[f"{old}.o_proj.weight"]
        state[f"{new}.w13.weight"] = torch.cat([w[f"{old}.gate_proj.weight"], w[f"{old}.up_proj.weight"]])
        state[f"{new}.w2.weight"] = w[f"{old}.down_proj.weight"]
    net = Decoder()
    net.load_state_dict(state)
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
