"""Max pooling that keeps for backward where the maxima are, and not the image that they are of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def max_pool_2d(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil_mode: bool,
) -> Tensor:
    """Return what ``torch.nn.functional.max_pool2d`` does; its backward keeps ``x`` too, for the shape alone.

    Args:
        x: Images on a CPU, (N, C, H, W).
        kernel: Window sizes, one per axis, as all that follow.
        strides: Steps from one window to the next.
        pads: Padding at both ends.
        dilations: Steps between neighbouring elements of a window.
        ceil_mode: Keep a last, overhanging window.
    """
    y: Tensor = _MaxPool2d.apply(x, kernel, strides, pads, dilations, ceil_mode)
    return y


class _MaxPool2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *windows: Any) -> Tensor:
        y, places = torch.ops.aten.max_pool2d_with_indices(x, *windows)
        ctx.save_for_backward(places)
        ctx.shape, ctx.windows = x.shape, windows
        ctx.is_last = x.is_contiguous(memory_format=torch.channels_last)
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        form = torch.channels_last if ctx.is_last else torch.contiguous_format
        found = torch.empty(ctx.shape, dtype=above.dtype, device=above.device, memory_format=form)
        back = torch.ops.aten.max_pool2d_with_indices_backward
        if torch.is_grad_enabled():  # for a gradient of the gradient
            found = back(above, found, *ctx.windows, places)
        else:  # of its input the kernel reads the shape only
            back.grad_input(above, found, *ctx.windows, places, grad_input=found)
        return found, *[None] * len(ctx.windows)
