"""Port: the mixer with its tokens in the last axis, (N, C, T)."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 24
DEPTH = 3
TOKENS = 48
CLASSES = 10


def norm(x, weight, bias):
    """Normalise over the channels, axis 1."""
    centred = x - x.mean(1, keepdim=True)
    deviation = torch.sqrt(centred.square().mean(1, keepdim=True) + 1e-6)
    return centred / deviation * weight[:, None] + bias[:, None]


class Mixer(nn.Module):
    def __init__(self, w):
        super().__init__()
        self.w = nn.ParameterDict({name.replace(".", "_"): nn.Parameter(x) for name, x in w.items()})

    def linear(self, name, x):
        return F.linear(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def pointwise(self, name, x):
        return F.conv1d(x, self.w[f"{name}_weight"][..., None], self.w[f"{name}_bias"])

    def norm(self, name, x):
        return norm(x, self.w[f"{name}_weight"], self.w[f"{name}_bias"])

    def forward(self, images):
        x = images * 4 - 2
        x = F.conv2d(x, self.w["patch_weight"], self.w["patch_bias"], stride=4).flatten(2)
        for i in range(DEPTH):
            block = f"blocks_{i}"
            y = self.linear(f"{block}_token1", self.norm(f"{block}_norm1", x))
            x = x + self.linear(f"{block}_token2", F.gelu(y))
            y = self.pointwise(f"{block}_channel1", self.norm(f"{block}_norm2", x))
            x = x + self.pointwise(f"{block}_channel2", F.gelu(y))
        x = self.norm("norm", x).mean(2)
        return self.linear("head", x)


def load(path):
    return Mixer(load_file(path)).eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
