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


def every(x: Tensor, strides: tuple[int, ...]) -> Tensor:
    """Return every so many pixels by axis, beginning with the first, in memory as the image is."""
    made: Tensor = _Every.apply(x, strides)
    return made


def is_pointwise(x: Tensor, w: Tensor, *, strides: Sequence[int], padding: Sequence[int], group: int) -> bool:
    """Return whether a convolution is a product of matrices that lie ready in the memory of a CPU."""
    return (
        x.ndim == 4
        and w.shape[2:] == (1, 1)
        and group == 1
        and max(strides) == 1
        and not any(padding)
        and x.device.type == "cpu"
        and x.dtype == w.dtype
        and x.is_contiguous(memory_format=torch.channels_last)
        and not torch.is_autocast_enabled("cpu")  # which knows torch's own operator
    )


def pointwise(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    """Return the convolution of images, channels last in memory, with a window of one.

    Args:
        x: The images.
        w: The filters; their last two axes are 1.
        b: The biases.
    """
    made: Tensor = _Pointwise.apply(x, w, b)
    return made


def _rows(images: Tensor) -> Tensor:
    """Return images whose channels are last in memory as (pixels, channels), a view."""
    return images.movedim(1, -1).view(-1, images.shape[1])


class _Pointwise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
        sizes = (x.shape[0], w.shape[0], *x.shape[2:])
        y = torch.empty(sizes, dtype=x.dtype, memory_format=torch.channels_last)
        rows, columns = _rows(x), w.flatten(1).t()
        if b is None:
            torch.mm(rows, columns, out=_rows(y))
        else:
            torch.addmm(b, rows, columns, out=_rows(y))
        ctx.save_for_backward(x, w)
        ctx.has_bias = b is not None
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        wanted = [*ctx.needs_input_grad[:2], ctx.has_bias and ctx.needs_input_grad[2]]
        if torch.is_grad_enabled():  # a derivative of this is wanted, which torch's own operator has
            sizes = [len(w)] if ctx.has_bias else None
            settings = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
            found: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
                above, x, w, sizes, *settings, wanted
            )
            return found
        rows, dx = _rows(above.contiguous(memory_format=torch.channels_last)), None
        if wanted[0]:
            dx = torch.empty_like(x)
            torch.mm(rows, w.flatten(1), out=_rows(dx))
        dw = (rows.t() @ _rows(x)).view(w.shape) if wanted[1] else None
        return dx, dw, rows.sum(0) if wanted[2] else None


class _Every(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, strides: tuple[int, ...]) -> Tensor:
        last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last)
        ctx.memory_format = torch.channels_last if last else torch.contiguous_format
        ctx.sizes = x.shape
        ctx.places = (slice(None), slice(None), *(slice(None, None, stride) for stride in strides))
        return x[ctx.places].clone(memory_format=ctx.memory_format)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        dx = torch.empty(
            ctx.sizes, dtype=above.dtype, device=above.device, memory_format=ctx.memory_format
        ).zero_()
        dx[ctx.places] = above
        return dx, None
