"""PyTorch modules drawn from a seed: vision, sequences and attention, at sizes other than the usual 224.

The rule: ``seed % 3`` chooses the family, everything else comes from ``random.Random(seed)``, and the values
of the weights from ``torch.manual_seed(seed)``. The README says which seeds are measured.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 (PyTorch's own name for it)

if TYPE_CHECKING:
    Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A module and the inputs that it is exported with.

    Attributes:
        module: The module, in evaluation mode.
        inputs: Its inputs by the names of ``forward``'s arguments, with a batch of 1.
        family: ``vision``, ``sequence`` or ``attention``.
    """

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    family: str


def draw(seed: int) -> Drawn:
    """Return the module of a seed."""
    torch.manual_seed(seed)
    family, make = (("vision", _vision), ("sequence", _sequence), ("attention", _attention))[seed % 3]
    module, inputs = make(random.Random(seed))
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm2d | nn.BatchNorm1d):
                part.running_mean.normal_()
                part.running_var.uniform_(0.5, 2)
    return Drawn(module.eval(), inputs, family)


class Lambda(nn.Module):  # type: ignore[misc]
    """A function without parameters as a part of a module."""

    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return self.function(x)


class Residual(nn.Module):  # type: ignore[misc]
    """A part whose input is added to its output, or joined with it."""

    def __init__(self, inner: nn.Module, *, joins: bool = False) -> None:
        super().__init__()
        self.inner = inner
        self.joins = joins

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        y = self.inner(x)
        return torch.cat([x, y], 1) if self.joins else x + y


class SqueezeExcite(nn.Module):  # type: ignore[misc]
    """Channels weighted by what their averages say."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, 4, 1)
        self.expand = nn.Conv2d(4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        return x * torch.sigmoid(self.expand(F.relu(self.reduce(x.mean((2, 3), keepdim=True)))))


def _activation(rng: random.Random) -> nn.Module:
    return rng.choice(
        [nn.ReLU, nn.GELU, nn.SiLU, nn.Hardswish, nn.ELU, nn.LeakyReLU, nn.PReLU, nn.Tanh, nn.Softplus]
    )()


def _norm(rng: random.Random, channels: int) -> nn.Module:
    return rng.choice(
        [
            lambda: nn.BatchNorm2d(channels),
            lambda: nn.GroupNorm(gcd(rng.choice([1, 2, 4]), channels), channels),
            lambda: nn.InstanceNorm2d(channels, affine=True),
            nn.Identity,
        ]
    )()


def _vision_block(rng: random.Random, channels: int) -> tuple[nn.Module, int]:
    """Return a block, and the channels that it gives."""
    wider = rng.choice([8, 12, 16])
    kernel = rng.choice([1, 3, 5])
    same = nn.Conv2d(channels, channels, 3, padding=1, groups=rng.choice([1, channels]))
    choices: list[Callable[[], tuple[nn.Module, int]]] = [
        lambda: (nn.Conv2d(channels, wider, kernel, stride=rng.choice([1, 2]), padding=kernel // 2), wider),
        lambda: (nn.Conv2d(channels, wider, 3, padding=2, dilation=2, bias=False), wider),
        lambda: (Residual(nn.Sequential(same, _norm(rng, channels), _activation(rng))), channels),
        lambda: (Residual(same, joins=True), 2 * channels),
        lambda: (SqueezeExcite(channels), channels),
        lambda: (nn.MaxPool2d(3, 2, 1, ceil_mode=rng.random() < 0.5), channels),
        lambda: (nn.AvgPool2d(2, ceil_mode=rng.random() < 0.5), channels),
        lambda: (nn.Upsample(scale_factor=2, mode=rng.choice(["nearest", "bilinear"])), channels),
        lambda: (nn.PixelShuffle(2), channels // 4),
        lambda: (nn.ConvTranspose2d(channels, wider, 2, stride=2), wider),
        lambda: (Lambda(lambda x: x.permute(0, 2, 3, 1)), channels),
    ]
    block, given = rng.choice(choices)()
    if isinstance(block, Lambda):  # a normalisation of channels that stand last
        back = Lambda(lambda x: x.permute(0, 3, 1, 2))
        return nn.Sequential(block, nn.LayerNorm(channels), back), channels
    return nn.Sequential(block, _norm(rng, given), _activation(rng)), given


def _vision(rng: random.Random) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    depth, height = rng.choice([1, 3, 3, 4]), rng.choice([24, 32, 40, 48, 64, 96])
    width = height if rng.random() < 0.6 else rng.choice([20, 36, 56, 80])
    channels = 8
    parts: list[nn.Module] = [nn.Conv2d(depth, channels, 3, padding=1), _norm(rng, channels)]
    for _ in range(rng.randint(1, 4)):
        block, channels = _vision_block(rng, channels)
        parts.append(block)
        if channels % 4:
            parts.append(nn.Conv2d(channels, 8, 1))
            channels = 8
    example = torch.randn(1, depth, height, width)
    end = rng.choice(["average", "grid", "grid", "maximum", "flat", "map"])
    if end == "map":
        parts.append(nn.Conv2d(channels, 5, 1))
    else:
        grids: list[Any] = [2, 4, (3, 2)]
        grid = rng.choice(grids) if end == "grid" else 1
        pools = {"maximum": nn.AdaptiveMaxPool2d(1), "flat": nn.Identity()}
        parts += [pools.get(end, nn.AdaptiveAvgPool2d(grid)), nn.Flatten()]
        with torch.no_grad():
            size = nn.Sequential(*parts).eval()(example).shape[1]
        parts.append(nn.Linear(size, 10))
    return nn.Sequential(*parts), {"input": example}


class Recurrent(nn.Module):  # type: ignore[misc]
    """A recurrent layer whose states alone are given on."""

    def __init__(self, rng: random.Random, features: int, hidden: int) -> None:
        super().__init__()
        kind = rng.choice([nn.LSTM, nn.GRU])
        self.layer = kind(features, hidden // 2, batch_first=True, bidirectional=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        states: torch.Tensor = self.layer(x)[0]
        return states


def _first(rng: random.Random, steps: int, features: int, width: int) -> tuple[nn.Module, torch.Tensor]:
    """Return the first part of a net of sequences, and its input: features or numbers of words."""
    if rng.random() < 0.4:
        return nn.Embedding(50, width), torch.randint(0, 50, (1, steps))
    return nn.Linear(features, width), torch.randn(1, steps, features)


def _convolved(rng: random.Random, width: int) -> nn.Module:
    before, after = Lambda(lambda x: x.transpose(1, 2)), Lambda(lambda x: x.transpose(1, 2))
    return nn.Sequential(before, nn.Conv1d(width, width, 3, padding=1), _activation(rng), after)


def _sequence(rng: random.Random) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    steps, features, width = rng.choice([9, 20, 30, 50]), rng.choice([6, 12, 40]), rng.choice([8, 16])
    first, example = _first(rng, steps, features, width)
    if rng.random() < 0.3:  # a signal, of channels and samples
        first = nn.Sequential(nn.Conv1d(2, width, 5, padding=2), Lambda(lambda x: x.transpose(1, 2)))
        example = torch.randn(1, 2, steps * 4)
    parts = [first]
    for _ in range(rng.randint(1, 3)):
        choices: list[Callable[[], nn.Module]] = [
            lambda: Recurrent(rng, width, width),
            lambda: _convolved(rng, width),
            lambda: Residual(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), _activation(rng))),
            lambda: Lambda(lambda x: F.pad(x, (0, 0, 1, 0))[:, :-1]),
        ]
        parts.append(rng.choice(choices)())
    ends: list[Callable[[], nn.Module]] = [
        lambda: Lambda(lambda x: x.mean(1)),
        lambda: Lambda(lambda x: x[:, -1]),
        lambda: Lambda(lambda x: x.amax(1)),
        nn.Identity,
    ]
    return nn.Sequential(*parts, rng.choice(ends)(), nn.Linear(width, 7)), {"input": example}


class Attention(nn.Module):  # type: ignore[misc]
    """Self-attention written by hand, with PyTorch's function or as its layer."""

    def __init__(self, rng: random.Random, width: int, steps: int) -> None:
        super().__init__()
        self.heads = rng.choice([1, 2, 4])
        self.how = rng.choice(["written", "function", "layer"])
        self.causal = rng.random() < 0.3 and self.how != "layer"
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.layer = nn.MultiheadAttention(width, self.heads, batch_first=True)
        self.register_buffer("mask", torch.full((steps, steps), -1e4).triu(1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        y = self.norm(x)
        if self.how == "layer":
            return x + self.layer(y, y, y, need_weights=False)[0]
        batch, steps, width = y.shape
        q, k, v = self.qkv(y).reshape(batch, steps, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.how == "function":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
            mixed = (scores + self.mask[:steps, :steps] if self.causal else scores).softmax(-1) @ v
        return x + self.out(mixed.transpose(1, 2).reshape(batch, steps, width))


class Transformer(nn.Module):  # type: ignore[misc]
    """Blocks of attention on tokens, with a table of positions and perhaps a token for the class."""

    def __init__(self, rng: random.Random, embed: nn.Module, width: int, steps: int) -> None:
        super().__init__()
        self.embed = embed
        self.cls = nn.Parameter(torch.randn(1, 1, width)) if rng.random() < 0.4 else None
        steps += self.cls is not None
        self.positions = nn.Parameter(torch.randn(1, steps + rng.choice([0, 0, 10]), width))
        blocks: list[nn.Module] = []
        for _ in range(rng.randint(1, 2)):
            blocks.append(Attention(rng, width, steps))
            feed = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), _activation(rng))
            blocks.append(Residual(nn.Sequential(feed, nn.Linear(2 * width, width))))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(width, 6)
        self.end = rng.choice(["first", "mean", "all"])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        x = self.embed(x)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1)
        x = self.blocks(x + self.positions[:, : x.shape[1]])
        pooled = x[:, 0] if self.end == "first" else x.mean(1) if self.end == "mean" else x
        logits: torch.Tensor = self.head(pooled)
        return logits


class Crossed(nn.Module):  # type: ignore[misc]
    """Queries of one sequence that attend to another: a net with two inputs."""

    def __init__(self, rng: random.Random, features: int, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, width)
        self.second = nn.Linear(features, width)
        self.layer = nn.MultiheadAttention(width, rng.choice([1, 2]), batch_first=True)
        self.head = nn.Linear(width, 6)

    def forward(self, query: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """Return the output."""
        q, m = self.first(query), self.second(memory)
        logits: torch.Tensor = self.head(q + self.layer(q, m, m, need_weights=False)[0])
        return logits


def _attention(rng: random.Random) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    steps, features, width = rng.choice([9, 20, 30, 50]), rng.choice([6, 12, 40]), rng.choice([8, 16])
    if rng.random() < 0.12:
        inputs = {"query": torch.randn(1, steps, features), "memory": torch.randn(1, steps + 3, features)}
        return Crossed(rng, features, width), inputs
    embed, example = _first(rng, steps, features, width)
    if rng.random() < 0.4:  # patches of a picture
        patch, rows, columns = rng.choice([4, 8]), rng.choice([3, 4, 6]), rng.choice([3, 4, 5])
        cut = nn.Conv2d(3, width, patch, stride=patch)
        embed = nn.Sequential(cut, Lambda(lambda x: x.flatten(2).transpose(1, 2)))
        example, steps = torch.randn(1, 3, patch * rows, patch * columns), rows * columns
    return Transformer(rng, embed, width, steps), {"x": example}
