"""Port: the vision transformer, patches as a matrix product."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 32
HEADS = 4
DEPTH = 2
GRID = 6
CLASSES = 10


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_q = nn.Linear(WIDTH, WIDTH)
        self.to_k = nn.Linear(WIDTH, WIDTH)
        self.to_v = nn.Linear(WIDTH, WIDTH)
        self.to_out = nn.Linear(WIDTH, WIDTH)

    def heads(self, x):
        return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.heads(self.to_q(x)), self.heads(self.to_k(x)), self.heads(self.to_v(x))
        weights = (q @ k.mT / (WIDTH // HEADS) ** 0.5).softmax(-1)
        return self.to_out((weights @ v).transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.attention = Attention()
        self.scale1 = nn.Parameter(torch.ones(WIDTH))
        self.ln2 = nn.LayerNorm(WIDTH, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 3 * WIDTH), nn.GELU(), nn.Linear(3 * WIDTH, WIDTH))
        self.scale2 = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        x = x + self.scale1 * self.attention(self.ln1(x))
        return x + self.scale2 * self.mlp(self.ln2(x))


class VisionTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(48, WIDTH)
        self.token = nn.Parameter(torch.zeros(WIDTH))
        self.table = nn.Parameter(torch.zeros(1 + GRID * GRID, WIDTH))
        self.encoder = nn.Sequential(*[Encoder() for _ in range(DEPTH)])
        self.ln = nn.LayerNorm(WIDTH, eps=1e-6)
        self.classifier = nn.Linear(WIDTH, CLASSES)

    def forward(self, images):
        n, _, height, width = images.shape
        rows, columns = height // 4, width // 4
        x = images.reshape(n, 3, rows, 4, columns, 4).permute(0, 2, 4, 1, 3, 5)
        x = self.embed(x.reshape(n, rows * columns, 48))
        table = self.table[1:].T.reshape(1, WIDTH, GRID, GRID)
        if rows != GRID or columns != GRID:
            table = F.interpolate(table, (rows, columns), mode="bicubic", align_corners=False)
        x = x + table.reshape(WIDTH, rows * columns).T
        first = (self.token + self.table[0]).expand(n, 1, WIDTH)
        x = self.encoder(torch.cat([first, x], 1))
        return self.classifier(self.ln(x[:, 0]))


def load(path):
    w = load_file(path)
    state = {
        "embed.weight": w["patch.weight"].flatten(1),
        "embed.bias": w["patch.bias"],
        "token": w["cls"].reshape(-1),
        "table": w["pos"][0],
        "ln.weight": w["norm.weight"],
        "ln.bias": w["norm.bias"],
        "classifier.weight": w["head.weight"],
        "classifier.bias": w["head.bias"],
    }
    for i in range(DEPTH):
        old, new = f"blocks.{i}", f"encoder.{i}"
        state[f"{new}.scale1"] = w[f"{old}.gamma1"]
        state[f"{new}.scale2"] = w[f"{old}.gamma2"]
        for kind in ("weight", "bias"):
            q, k, v = w[f"{old}.qkv.{kind}"].chunk(3)
            state[f"{new}.attention.to_q.{kind}"] = q
            state[f"{new}.attention.to_k.{kind}"] = k
            state[f"{new}.attention.to_v.{kind}"] = v
            state[f"{new}.attention.to_out.{kind}"] = w[f"{old}.proj.{kind}"]
            state[f"{new}.ln1.{kind}"] = w[f"{old}.norm1.{kind}"]
            state[f"{new}.ln2.{kind}"] = w[f"{old}.norm2.{kind}"]
            state[f"{new}.mlp.0.{kind}"] = w[f"{old}.fc1.{kind}"]
            state[f"{new}.mlp.2.{kind}"] = w[f"{old}.fc2.{kind}"]
    net = VisionTransformer()
    net.load_state_dict(state)
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
