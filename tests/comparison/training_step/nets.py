"""Nets in two spellings, with other names and layouts, that start from the same weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (as everybody calls it)

CLASSES, WORDS, WIDTH, LENGTH, BATCH = 5, 23, 12, 7, 6


@dataclass
class Choices:
    """What a fault changes in the code of a net; by default nothing.

    Attributes:
        dropout: Probability of a zero.
        cut: Where ``detach`` is called: ``""``, ``branch``, ``data``, ``no_grad``, ``scores``.
        momentum: Of batch normalisation, if another one.
        is_biased: Whether the moving variance divides by n.
        rounding: How features are rounded: ``straight`` or ``plain``.
        reverse: Factor on the gradient of the features of the second head.
        tied: Whether the head shares the table.
        padding: Row of the table without a gradient.
    """

    dropout: float = 0.1
    cut: str = ""
    momentum: float = 0.1
    is_biased: bool = False
    rounding: str = "straight"
    reverse: float = -0.5
    tied: bool = True
    padding: int | None = None


class Reversed(torch.autograd.Function):
    """The identity, whose gradient is multiplied."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        """Return the input."""
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return a multiple of the gradient."""
        return ctx.factor * gradient, None


class Images(nn.Module):
    """A small residual net with batch normalisation, rounded features and two heads."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices
        self.stem = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(8, momentum=choices.momentum)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(8, momentum=choices.momentum)
        self.drop = nn.Dropout(choices.dropout)
        self.head = nn.Linear(8, CLASSES)
        self.domain = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of classes and of domains."""
        x = F.relu(self.bn(self.stem(x)))
        y = self.bn2(self.conv(x))
        if self.choices.cut == "branch":
            y = y.detach()
        x = F.relu(x + y)
        if self.choices.cut == "no_grad":
            with torch.no_grad():
                x = x * 1.0
        x = x.mean((2, 3))
        if self.choices.rounding == "straight":
            x = x + (torch.round(x * 8) / 8 - x).detach()
        else:
            x = torch.round(x * 8) / 8
        x = self.drop(x)
        return self.head(x), self.domain(Reversed.apply(x, self.choices.reverse))


class VariancePort(nn.Module):
    """Batch normalisation by hand."""

    def __init__(self, width: int, *, momentum: float, is_biased: bool) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mu", torch.zeros(width))
        self.register_buffer("var", torch.ones(width))
        self.momentum, self.is_biased = momentum, is_biased

    def forward(self, x: Tensor) -> Tensor:
        """Normalise an image whose channels are last."""
        if self.training:
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2), unbiased=False)
            count = x.numel() / x.shape[-1]
            moving = var if self.is_biased else var * count / (count - 1)
            with torch.no_grad():
                self.mu += self.momentum * (mean.detach() - self.mu)
                self.var += self.momentum * (moving.detach() - self.var)
        else:
            mean, var = self.mu, self.var
        return (x - mean) * torch.rsqrt(var + 1e-5) * self.scale + self.shift


class ImagesPort(nn.Module):
    """The same with channels last, other names, and arrays laid out as TensorFlow has them."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices
        self.k1 = nn.Parameter(torch.empty(3, 3, 3, 8))
        self.n1 = VariancePort(8, momentum=choices.momentum, is_biased=choices.is_biased)
        self.k2 = nn.Parameter(torch.empty(3, 3, 8, 8))
        self.b2 = nn.Parameter(torch.empty(8))
        self.n2 = VariancePort(8, momentum=choices.momentum, is_biased=choices.is_biased)
        self.w, self.b = nn.Parameter(torch.empty(8, CLASSES)), nn.Parameter(torch.empty(CLASSES))
        self.dw, self.db = nn.Parameter(torch.empty(8, 2)), nn.Parameter(torch.empty(2))

    def copy(self, net: Images) -> None:
        """Take the weights of the original."""
        with torch.no_grad():
            self.k1.copy_(net.stem.weight.permute(2, 3, 1, 0))
            self.k2.copy_(net.conv.weight.permute(2, 3, 1, 0))
            self.b2.copy_(net.conv.bias)
            for own, bn in ((self.n1, net.bn), (self.n2, net.bn2)):
                own.scale.copy_(bn.weight)
                own.shift.copy_(bn.bias)
            for w, b, fc in ((self.w, self.b, net.head), (self.dw, self.db, net.domain)):
                w.copy_(fc.weight.T)
                b.copy_(fc.bias)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores of classes and of domains."""
        x = F.conv2d(x, self.k1.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)
        x = self.n1(x).relu()
        y = F.conv2d(x.permute(0, 3, 1, 2), self.k2.permute(3, 2, 0, 1), self.b2, padding=1)
        y = self.n2(y.permute(0, 2, 3, 1))
        if self.choices.cut == "branch":
            y = y.detach()
        x = (x + y).relu()
        if self.choices.cut == "no_grad":
            with torch.no_grad():
                x = x * 1.0
        x = x.mean((1, 2))
        if self.choices.rounding == "straight":
            x = x + ((x * 8).round() / 8 - x).detach()
        else:
            x = (x * 8).round() / 8
        x = F.dropout(x, self.choices.dropout, self.training)
        return x @ self.w + self.b, Reversed.apply(x, self.choices.reverse) @ self.dw + self.db


class Text(nn.Module):
    """A transformer of one block with a tied head."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices
        self.table = nn.Embedding(WORDS, WIDTH, padding_idx=choices.padding)
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        if choices.tied:
            self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores of words, ids in whole numbers."""
        x = self.table(ids)
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / WIDTH**0.5
        if self.choices.cut == "scores":
            scores = scores.detach()
        x = x + F.dropout(self.out(scores.softmax(-1) @ v), self.choices.dropout, self.training)
        if self.choices.cut == "data":
            x = x.data
        return self.head(x + self.down(F.gelu(self.up(self.norm2(x)))))


class TextPort(nn.Module):
    """The same with queries, keys and values apart, and matrices that are multiplied from the right."""

    def __init__(self, choices: Choices) -> None:
        super().__init__()
        self.choices = choices
        for name, shape in {
            "wte": (WORDS, WIDTH),
            "g1": (WIDTH,),
            "c1": (WIDTH,),
            "g2": (WIDTH,),
            "c2": (WIDTH,),
            "qkv": (WIDTH, 3 * WIDTH),
            "qkv_b": (3 * WIDTH,),
            "proj": (WIDTH, WIDTH),
            "proj_b": (WIDTH,),
            "fc": (WIDTH, 2 * WIDTH),
            "fc_b": (2 * WIDTH,),
            "fc2": (2 * WIDTH, WIDTH),
            "fc2_b": (WIDTH,),
        }.items():
            setattr(self, name, nn.Parameter(torch.empty(shape)))
        self.lm = self.wte if choices.tied else nn.Parameter(torch.empty(WORDS, WIDTH))

    def copy(self, net: Text) -> None:
        """Take the weights of the original."""
        with torch.no_grad():
            self.wte.copy_(net.table.weight)
            self.lm.copy_(net.head.weight)
            for w, b, fc in (
                (self.qkv, self.qkv_b, net.qkv),
                (self.proj, self.proj_b, net.out),
                (self.fc, self.fc_b, net.up),
                (self.fc2, self.fc2_b, net.down),
            ):
                w.copy_(fc.weight.T)
                b.copy_(fc.bias)
            for g, c, norm in ((self.g1, self.c1, net.norm), (self.g2, self.c2, net.norm2)):
                g.copy_(norm.weight)
                c.copy_(norm.bias)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the scores of words."""
        x = F.embedding(ids, self.wte, padding_idx=self.choices.padding)
        h = F.layer_norm(x, (WIDTH,), self.g1, self.c1)
        q, k, v = (h @ self.qkv + self.qkv_b).split(WIDTH, -1)
        scores = torch.einsum("btd,bsd->bts", q, k) * WIDTH**-0.5
        if self.choices.cut == "scores":
            scores = scores.detach()
        h = torch.softmax(scores, -1) @ v @ self.proj + self.proj_b
        x = x + F.dropout(h, self.choices.dropout, self.training)
        if self.choices.cut == "data":
            x = x.data
        h = F.gelu(F.layer_norm(x, (WIDTH,), self.g2, self.c2) @ self.fc + self.fc_b)
        return (x + h @ self.fc2 + self.fc2_b) @ self.lm.T


@dataclass
class Training:
    """A net with its batch.

    Attributes:
        net: The module.
        inputs: What it is given.
        targets: What its loss is computed with.
    """

    net: nn.Module
    inputs: Tensor
    targets: Tensor = field(repr=False)

    def loss(self, outputs: Any, reduction: str = "mean") -> Tensor:
        """Return the cross entropy; ``reduction`` may be one of ``LOSSES`` besides PyTorch's own."""
        settings, factor = LOSSES.get(reduction, (lambda count: {"reduction": reduction}, 1.0))

        def entropy(scores: Tensor, targets: Tensor) -> Tensor:
            named = settings(scores.shape[-1])
            if "weight" in named:
                named["weight"] = named["weight"].to(scores.dtype)
            return factor * F.cross_entropy(scores, targets, **named)

        if isinstance(outputs, tuple):
            return entropy(outputs[0], self.targets) + entropy(outputs[1], self.targets % 2)
        return entropy(outputs.flatten(0, 1), self.targets.flatten())


LOSSES: dict[str, tuple[Callable[[int], dict[str, Any]], float]] = {
    "smoothed": (lambda count: {"label_smoothing": 0.1}, 1.0),
    "weighed": (lambda count: {"weight": torch.arange(1.0, count + 1)}, 1.0),
    "ignoring": (lambda count: {"ignore_index": 3}, 1.0),
    "half": (lambda count: {}, 0.5),
}
"""Losses that are another function of the same scores: settings for a number of classes, and a factor."""


def pair(
    kind: str, spelling: str, choices: Choices, seed: int, dtype: torch.dtype = torch.float64
) -> tuple[Training, Training]:
    """Return the original and a port of it, with drawn weights.

    Args:
        kind: ``images`` or ``text``.
        spelling: ``same`` for the original's own code, ``other`` for other names and layouts.
        choices: What the port does.
        seed: Of weights and inputs.
        dtype: What it is computed in.
    """
    torch.manual_seed(seed)
    originals, ports = {"images": Images, "text": Text}, {"images": ImagesPort, "text": TextPort}
    a: Any = originals[kind](Choices())
    b: Any = (originals if spelling == "same" else ports)[kind](choices)
    if spelling == "same":
        b.load_state_dict(a.state_dict())
    else:
        b.copy(a)
    if kind == "images":
        inputs, targets = torch.randn(BATCH, 3, 9, 11).to(dtype), torch.randint(0, CLASSES, (BATCH,))
    else:
        inputs, targets = (torch.randint(0, WORDS, (BATCH, LENGTH)) for _ in range(2))
    return Training(a.to(dtype), inputs, targets), Training(b.to(dtype), inputs, targets)
