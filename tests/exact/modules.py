"""Modules of many kinds, each with something that could depend on who computes a shard."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint


class Recurrent(nn.Module):
    """An LSTM with dropout between its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(8, 12, 2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(12, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits; the rows of an image are its steps."""
        return self.out(self.layers(images.flatten(1, 2))[0][:, -1])


class ChannelsLast(nn.Module):
    """Grouped convolutions whose weights lie in memory with the channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.GroupNorm(4, 8)
        self.second, self.out = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.Linear(8, 5)
        self.to(memory_format=torch.channels_last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        hidden = torch.relu(self.norm(self.first(images)))
        return self.out((hidden + self.second(hidden)).mean((2, 3)))


class Depth(nn.Module):
    """Frozen layers whose statistics move, and a branch that a coin skips."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Sequential(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6)).requires_grad_(requires_grad=False)
        self.out, self.branch = nn.Linear(216, 5), nn.Linear(216, 5)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        hidden = self.frozen(images).flatten(1)
        return self.out(hidden) + (self.branch(hidden) if torch.rand(()) > 0.5 else 0)


class Normed(nn.Module):
    """Normed weights, whose buffers follow the weights, and a plain mean of all statistics."""

    def __init__(self) -> None:
        super().__init__()
        norm = nn.BatchNorm2d(6, momentum=None)
        last = weight_norm(nn.Linear(216, 5))
        self.net = nn.Sequential(spectral_norm(nn.Conv2d(1, 6, 3)), norm, nn.ReLU(), nn.Flatten(), last)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        return self.net(images)


class Mixed(nn.Module):
    """Half precision, and a part that backward computes once more."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GELU(), nn.Flatten(), nn.Linear(576, 32))
        self.last = nn.Sequential(nn.LayerNorm(32), nn.Dropout(0.3), nn.Linear(32, 5))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return checkpoint(self.last, self.first(images), use_reentrant=False).float()


class Centred(nn.Module):
    """Buffers that each pass replaces by other tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(64, 8), nn.Linear(8, 5)
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        hidden = self.first(images.flatten(1))
        self.mean, self.count = 0.9 * self.mean + 0.1 * hidden.detach().mean(0), self.count + 1
        return self.out(hidden - self.mean)


KINDS = {one.__name__.lower(): one for one in (Recurrent, ChannelsLast, Depth, Normed, Mixed, Centred)}
