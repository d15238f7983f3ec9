"""LRN over neighbouring channels, with its gradient: a few passes over rows that stay in the cache.

With x the input, s = bias + alpha / size sum of x^2 over the window of a channel, and y = x s^-beta:
dx = dy s^-beta - 2 alpha beta / size x sum of (dy y / s) over the channels whose windows hold the channel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from netweave.runtime.backends.torch.table import lowering

CHUNK_ELEMENTS = 1 << 17
"""So many elements are taken at a time on a CPU."""


@dataclass(frozen=True, slots=True)
class Window:
    """The settings; the window of channel c runs from c - ``before`` to c + ``after``."""

    before: int
    after: int
    alpha: float
    beta: float
    bias: float

    @property
    def size(self) -> int:
        """Number of channels."""
        return self.before + 1 + self.after

    def bases(self, x: Tensor) -> Tensor:
        """Return s of rows (positions, channels)."""
        sums = window_sums(x.square(), self.before, self.after)
        return sums.mul_(self.alpha / self.size).add_(self.bias)

    def powers(self, bases: Tensor) -> Tensor:
        """Return s^-beta; two roots take a fifth of the time of a power."""
        if self.beta == 0.75:
            root = bases.rsqrt()
            return root.mul_(root.sqrt())
        return bases.pow(-self.beta)


def window_sums(rows: Tensor, before: int, after: int) -> Tensor:
    """Return for each channel the sum over the channels around it, outside of which there is nothing."""
    num_channels = rows.shape[1]
    sums = rows.clone()
    for shift in range(1, min(before, num_channels - 1) + 1):
        sums[:, shift:] += rows[:, :-shift]
    for shift in range(1, min(after, num_channels - 1) + 1):
        sums[:, :-shift] += rows[:, shift:]
    return sums


def _as_rows(x: Tensor) -> Tensor:
    """Return (positions, channels); a view where channels lie side by side."""
    return x.movedim(1, -1).reshape(-1, x.shape[1])


def _from_rows(rows: Tensor, like: Tensor) -> Tensor:
    return rows.reshape(like.movedim(1, -1).shape).movedim(-1, 1)


def _chunks(*tensors: Tensor) -> zip[tuple[Tensor, ...]]:
    count = len(tensors[0]) or 1
    if tensors[0].device.type == "cpu":
        count = max(1, CHUNK_ELEMENTS // tensors[0].shape[1])
    return zip(*(tensor.split(count) for tensor in tensors), strict=True)


class _LocalResponse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, window: Window) -> Tensor:
        rows = _as_rows(x)
        y = torch.empty_like(rows)
        bases = torch.empty_like(rows, dtype=torch.promote_types(x.dtype, torch.float32))
        for part, out, base in _chunks(rows, y, bases):
            base.copy_(window.bases(part.to(base.dtype)))
            out.copy_(window.powers(base).mul_(part))
        ctx.save_for_backward(x, bases)
        ctx.window = window
        return _from_rows(y, x)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        x, bases = ctx.saved_tensors
        window: Window = ctx.window
        factor = -2.0 * window.alpha * window.beta / window.size
        rows = _as_rows(x)
        dx = torch.empty_like(rows)
        for part, base, dy, out in _chunks(rows, bases, _as_rows(above), dx):
            straight = window.powers(base).mul_(dy)
            inner = window_sums((straight * part).div_(base), window.after, window.before)
            out.copy_(straight.add_(inner.mul_(part), alpha=factor))
        return _from_rows(dx, x), None


def _forward_only(rows: Tensor, y: Tensor, window: Window) -> None:
    """Compute without noting what backward needs; the result may be the input's memory."""
    for part, out in _chunks(rows, y):
        wide = part.to(torch.promote_types(part.dtype, torch.float32))
        out.copy_(window.powers(window.bases(wide)).mul_(part))


def _window(size: int, *, alpha: float, beta: float, bias: float) -> Window:
    """ONNX: around channel c from c - floor((size - 1) / 2) to c + ceil((size - 1) / 2)."""
    before = (size - 1) // 2
    return Window(before, size - 1 - before, alpha, beta, bias)


def local_response_normalization_(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Do the same in place; only without gradients."""
    rows = _as_rows(x)  # a copy where the channels do not lie side by side
    _forward_only(rows, rows, _window(size, alpha=alpha, beta=beta, bias=bias))
    return _from_rows(rows, x)


@lowering("LRN", since=1, in_place=local_response_normalization_)
def local_response_normalization(
    x: Tensor, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int
) -> Tensor:
    """Divide by a power of the mean square of neighbouring channels."""
    window = _window(size, alpha=alpha, beta=beta, bias=bias)
    if torch.is_grad_enabled() and x.requires_grad:
        made: Tensor = _LocalResponse.apply(x, window)
        return made
    rows = _as_rows(x)
    y = torch.empty_like(rows)
    _forward_only(rows, y, window)
    return _from_rows(y, x)
