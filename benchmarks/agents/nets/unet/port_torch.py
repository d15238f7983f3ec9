"""Port: the U-net as one class with a table of layers."""

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

WIDTH = 8

NAMES = {"enc_a": "down1", "enc_b": "down2", "base": "middle", "dec_b": "join2", "dec_a": "join1"}


class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        channels = {
            "enc_a": (1, WIDTH),
            "enc_b": (WIDTH, 2 * WIDTH),
            "base": (2 * WIDTH, 4 * WIDTH),
            "dec_b": (4 * WIDTH, 2 * WIDTH),
            "dec_a": (2 * WIDTH, WIDTH),
        }
        self.first = nn.ModuleDict({k: nn.Conv2d(i, o, 3) for k, (i, o) in channels.items()})
        self.norms = nn.ModuleDict({k: nn.GroupNorm(4, o, eps=1e-5) for k, (_, o) in channels.items()})
        self.second = nn.ModuleDict({k: nn.Conv2d(o, o, 3, padding="same") for k, (_, o) in channels.items()})
        self.grow_b = nn.ConvTranspose2d(4 * WIDTH, 2 * WIDTH, 3, 2, 1, 1)
        self.grow_a = nn.ConvTranspose2d(2 * WIDTH, WIDTH, 2, 2)
        self.mask_b = nn.Conv2d(2 * WIDTH, 1, 1)
        self.mask_a = nn.Conv2d(WIDTH, 1, 1)
        self.act = nn.LeakyReLU(0.2)

    def double(self, name, x):
        y = F.pad(x, (1, 1, 1, 1), mode="reflect")
        y = self.act(self.norms[name](self.first[name](y)))
        return self.act(self.second[name](y))

    def forward(self, picture):
        rows, columns = picture.shape[-2:]
        x = F.pad(picture, (0, (4 - columns % 4) % 4, 0, (4 - rows % 4) % 4))
        a = self.double("enc_a", x)
        b = self.double("enc_b", F.max_pool2d(a, 2))
        c = self.double("base", F.avg_pool2d(b, 2))
        b = self.double("dec_b", torch.cat([b, self.grow_b(c)], dim=1))
        a = self.double("dec_a", torch.cat([a, self.grow_a(b)], dim=1))
        low = F.interpolate(self.mask_b(b), size=a.shape[-2:], mode="bilinear", align_corners=False)
        both = torch.cat([self.mask_a(a), low], dim=1).sigmoid()
        return both[..., :rows, :columns]


def load(path):
    w = load_file(path)
    state = {}
    for kind in ("weight", "bias"):
        for new, old in NAMES.items():
            state[f"first.{new}.{kind}"] = w[f"{old}.conv1.{kind}"]
            state[f"norms.{new}.{kind}"] = w[f"{old}.norm.{kind}"]
            state[f"second.{new}.{kind}"] = w[f"{old}.conv2.{kind}"]
        state[f"grow_b.{kind}"] = w[f"up2.{kind}"]
        state[f"grow_a.{kind}"] = w[f"up1.{kind}"]
        state[f"mask_b.{kind}"] = w[f"coarse.{kind}"]
        state[f"mask_a.{kind}"] = w[f"fine.{kind}"]
    net = Segmenter()
    net.load_state_dict(state)
    return net.eval()


def run(net, images):
    with torch.no_grad():
        return net(torch.from_numpy(images)).numpy()
