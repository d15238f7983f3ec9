"""Port: the language model with separate projections for queries, keys and values."""

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


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


class Layer(nn.Module):
    def __init__(self, reach):
        super().__init__()
        self.reach = reach
        self.norm_a = nn.LayerNorm(WIDTH, eps=1e-5)
        self.norm_b = nn.LayerNorm(WIDTH, eps=1e-5)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up = nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def attend(self, x):
        n, t, _ = x.shape
        q = self.query(x).reshape(n, t, HEADS, WIDTH // HEADS)
        k = self.key(x).reshape(n, t, HEADS, WIDTH // HEADS)
        v = self.value(x).reshape(n, t, HEADS, WIDTH // HEADS)
        weights = torch.einsum("nqhd,nkhd->nhqk", q, k) * (WIDTH // HEADS) ** -0.5
        full = torch.ones(t, t, dtype=torch.bool)
        seen = full.tril() & full.triu(1 - self.reach)
        weights = torch.softmax(torch.where(seen, weights, -1e9), dim=-1)
        return self.out(torch.einsum("nhqk,nkhd->nqhd", weights, v).reshape(n, t, WIDTH))

    def forward(self, x):
        x = x + self.attend(self.norm_a(x))
        return x + self.down(gelu(self.up(self.norm_b(x))))


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Parameter(torch.zeros(CONTEXT, WIDTH))
        self.layers = nn.ModuleList([Layer(WINDOW if i % 2 == 1 else CONTEXT) for i in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH, eps=1e-5)

    def forward(self, ids):
        x = self.tokens(ids) + self.places[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return F.linear(x, self.tokens.weight)


def load(path):
    w = load_file(path)
    state = {
        "tokens.weight": w["wte.weight"],
        "places": w["wpe.weight"],
        "norm.weight": w["ln_f.weight"],
        "norm.bias": w["ln_f.bias"],
    }
    for i in range(DEPTH):
        for kind in ("weight", "bias"):
            q, k, v = w[f"h.{i}.attn.c_attn.{kind}"].chunk(3)
            state[f"layers.{i}.query.{kind}"] = q
            state[f"layers.{i}.key.{kind}"] = k
            state[f"layers.{i}.value.{kind}"] = v
            state[f"layers.{i}.out.{kind}"] = w[f"h.{i}.attn.c_proj.{kind}"]
            state[f"layers.{i}.norm_a.{kind}"] = w[f"h.{i}.ln_1.{kind}"]
            state[f"layers.{i}.norm_b.{kind}"] = w[f"h.{i}.ln_2.{kind}"]
            state[f"layers.{i}.up.{kind}"] = w[f"h.{i}.c_fc.{kind}"]
            state[f"layers.{i}.down.{kind}"] = w[f"h.{i}.c_proj.{kind}"]
    net = LanguageModel()
    net.load_state_dict(state)
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
