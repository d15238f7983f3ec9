"""Port: the tagger with its recurrences written out."""

import torch
from safetensors.torch import load_file
from torch import nn

WIDTH = 12
HIDDEN = 10
VOCABULARY = 53
TAGS = 7


class LSTMCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = nn.Parameter(torch.zeros(WIDTH + HIDDEN, 4 * HIDDEN))
        self.bias = nn.Parameter(torch.zeros(4 * HIDDEN))

    def forward(self, x, h, c):
        i, f, g, o = (torch.cat([x, h], -1) @ self.kernel + self.bias).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class GRUCell(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2 * HIDDEN, 3 * HIDDEN)
        self.outer = nn.Linear(HIDDEN, 3 * HIDDEN)

    def forward(self, x, h):
        xr, xz, xn = self.inner(x).chunk(3, -1)
        hr, hz, hn = self.outer(h).chunk(3, -1)
        r = torch.sigmoid(xr + hr)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + r * hn)
        return (1 - z) * n + z * h


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        self.ahead = LSTMCell()
        self.back = LSTMCell()
        self.second = GRUCell()
        self.scale = nn.LayerNorm(HIDDEN, eps=1e-5)
        self.tags = nn.Linear(HIDDEN, TAGS)

    def walk(self, cell, x, steps):
        h = c = x.new_zeros(len(x), HIDDEN)
        states = {}
        for t in steps:
            h, c = cell(x[:, t], h, c)
            states[t] = h
        return torch.stack([states[t] for t in range(x.shape[1])], 1)

    def forward(self, ids):
        x = self.table(ids)
        t = ids.shape[1]
        x = torch.cat([self.walk(self.ahead, x, range(t)), self.walk(self.back, x, range(t - 1, -1, -1))], -1)
        h = x.new_zeros(len(x), HIDDEN)
        states = []
        for step in range(t):
            h = self.second(x[:, step], h)
            states.append(h)
        return self.tags(self.scale(torch.stack(states, 1)))


def load(path):
    w = load_file(path)
    net = Tagger()
    net.table.weight.data = w["embedding.weight"]
    for cell, end in ((net.ahead, "l0"), (net.back, "l0_reverse")):
        cell.kernel.data = torch.cat([w[f"lstm.weight_ih_{end}"], w[f"lstm.weight_hh_{end}"]], 1).T
        cell.bias.data = w[f"lstm.bias_ih_{end}"] + w[f"lstm.bias_hh_{end}"]
    net.second.inner.weight.data = w["gru.weight_ih_l0"]
    net.second.inner.bias.data = w["gru.bias_ih_l0"]
    net.second.outer.weight.data = w["gru.weight_hh_l0"]
    net.second.outer.bias.data = w["gru.bias_hh_l0"]
    net.scale.weight.data, net.scale.bias.data = w["norm.weight"], w["norm.bias"]
    net.tags.weight.data, net.tags.bias.data = w["out.weight"], w["out.bias"]
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
