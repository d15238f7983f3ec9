"""Convolutions with a window of one: products of matrices, whose rows are the pixels.

With channels last in memory images are such matrices as they lie. On a CPU the products take less time than
oneDNN's convolutions do, which write their weights in another order first, most of all backward (0082).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence


def is_pointwise(x: Tensor, w: Tensor, padding: Sequence[int], group: int) -> bool:
    """Whether a convolution is a product of matrices that lie ready in the memory of a CPU."""
    return (
        x.ndim == 4
        and w.shape[2:] == (1, 1)
        and group == 1
        and not any(padding)
        and x.device.type == "cpu"
        and x.dtype == w.dtype
        and x.is_contiguous(memory_format=torch.channels_last)
    )


def pointwise(x: Tensor, w: Tensor, b: Tensor | None, strides: Sequence[int]) -> Tensor:
    """Return the convolution of images, channels last in memory, with a window of one.

    Args:
        x: The images.
        w: The filters; their last two axes are 1.
        b: The biases.
        strides: By axis.
    """
    made: Tensor = _Pointwise.apply(x, w, b, tuple(strides))
    return made


def _rows(images: Tensor) -> Tensor:
    """Return images as (pixels, channels): a view of those whose channels are last in memory."""
    return images.movedim(1, -1).reshape(-1, images.shape[1])


def _room(images: Tensor) -> Tensor:
    """Return the memory of images whose channels are last in it, as rows to be written."""
    return images.movedim(1, -1).view(-1, images.shape[1])


def _taken(x: Tensor, strides: tuple[int, int]) -> Tensor:
    """Return the pixels that windows begin at, as a view."""
    return x[:, :, :: strides[0], :: strides[1]]


class _Pointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, strides: tuple[int, int]) -> Tensor:
        taken = _taken(x, strides)
        num, _, height, width = taken.shape
        sizes = (num, len(w), height, width)
        y = torch.empty(sizes, dtype=x.dtype, memory_format=torch.channels_last)
        rows, columns = _rows(taken), w.flatten(1).t()
        if b is None:
            torch.mm(rows, columns, out=_room(y))
        else:
            torch.addmm(b, rows, columns, out=_room(y))
        ctx.save_for_backward(x, w)
        ctx.strides = strides
        ctx.has_bias = b is not None
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        wanted = ctx.needs_input_grad
        if torch.is_grad_enabled():  # a derivative of this is wanted, which torch's own operators have
            return *_by_operators(ctx, above), None
        above = above.contiguous(memory_format=torch.channels_last)
        rows = _rows(above)
        dx = _to_images(rows, w, x, ctx.strides) if wanted[0] else None
        dw = (rows.t() @ _rows(_taken(x, ctx.strides))).view(w.shape) if wanted[1] else None
        db = rows.sum(0) if ctx.has_bias and wanted[2] else None
        return dx, dw, db, None


def _to_images(rows: Tensor, w: Tensor, x: Tensor, strides: tuple[int, int]) -> Tensor:
    """Return the gradient of the images; zero in pixels that no window begins at."""
    if strides == (1, 1):
        dx = torch.empty_like(x)
        torch.mm(rows, w.flatten(1), out=_room(dx))
        return dx
    dx = torch.zeros_like(x)
    taken = _taken(dx, strides).movedim(1, -1)
    taken.copy_((rows @ w.flatten(1)).view(taken.shape))
    return dx


def _by_operators(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
    x, w = ctx.saved_tensors
    sizes = [len(w)] if ctx.has_bias else None
    wanted = [*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2]]
    found: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
        above, x, w, sizes, ctx.strides, (0, 0), (1, 1), False, (0, 0), 1, wanted
    )
    return found
