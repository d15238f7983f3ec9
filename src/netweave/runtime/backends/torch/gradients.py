"""Values whose gradient is their source's own and not that of what they compute."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.factor * above, None


def scaled_gradient(x: Tensor, factor: float) -> Tensor:
    """Return ``x``, whose gradient is multiplied with a factor; 0 is none at all."""
    made: Tensor = x.detach() if factor == 0 else _Scaled.apply(x, factor)
    return made


class _WithGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, gradient: Tensor, times_above: bool) -> Tensor:
        ctx.save_for_backward(gradient)
        ctx.times_above = times_above
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return gradient * above if ctx.times_above else gradient, None, None, None


def with_gradient(x: Tensor, y: Tensor, gradient: Tensor, *, times_above: bool) -> Tensor:
    """Return ``y``, which sends ``gradient`` to ``x``.

    Args:
        x: What the value is made from.
        y: The value; no gradient flows through it otherwise.
        gradient: Of the shape of ``x``.
        times_above: Multiply with the gradient from above, which must broadcast to it; otherwise that
            counts for nothing.
    """
    made: Tensor = _WithGradient.apply(x, y.detach(), gradient.detach(), times_above)
    return made


def needs_gradient(x: Tensor) -> bool:
    """Return whether a gradient for a tensor can be asked for later."""
    return bool(x.requires_grad and torch.is_grad_enabled())
