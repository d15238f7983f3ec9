"""A convolution whose backward frees its input early, where ``runtime.memory_plan.masking`` allows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netweave.runtime.backends.torch.windows import per_axis

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Ints


def unmasked_relu(x: Tensor, *, in_place: bool) -> Tensor:
    """Rectify; the gradient passes as it is, since the convolution behind has masked it already."""
    y: Tensor = _UnmaskedRelu.apply(x, in_place)
    return y


def masked_conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, pads: Ints = (), strides: Ints = (), **rest: Any
) -> Tensor:
    """Correlate a rectified image, of which nobody else reads the memory; its gradient is the Relu's.

    Args:
        x: Images, (N, C, H, W); their memory is freed by backward.
        w: Filters.
        b: Biases.
        pads: Padding, the same at both ends of an axis.
        strides: Steps, one per axis.
        rest: The further settings of ONNX's Conv.
    """
    if torch.is_autocast_enabled(x.device.type):  # as autocast does for torch's own convolution
        kind = torch.get_autocast_dtype(x.device.type)
        x, w, b = x.to(kind), w.to(kind), None if b is None else b.to(kind)
    window = (per_axis(strides, 2), list(pads[:2]) or [0, 0], per_axis(rest.get("dilations", ()), 2))
    y: Tensor = _MaskedConv.apply(x, w, b, window, rest.get("group", 1))
    return y


class _UnmaskedRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, in_place: bool) -> Tensor:
        if not in_place:
            return torch.relu(x)
        ctx.mark_dirty(x)
        return torch.relu_(x)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return above, None


class _MaskedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, window: Any, group: int) -> Tensor:
        ctx.save_for_backward(x, w)
        stride, padding, dilation = window
        sizes = None if b is None else list(b.shape)
        ctx.settings = (sizes, stride, padding, dilation, False, [0, 0], group)
        settings = (stride, padding, dilation, False, [0, 0], group)
        # only oneDNN's gradient of the input is known to leave the input alone
        ctx.frees = torch._C._select_conv_backend(x, w, b, *settings) == torch._C._ConvBackend.Mkldnn
        with torch.autocast(x.device.type, enabled=False):
            return torch.conv2d(x, w, b, stride, padding, dilation, group)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        back = torch.ops.aten.convolution_backward
        wants_x, wants_w, wants_b = ctx.needs_input_grad[:3]
        if not ctx.frees or not wants_x:
            of_x, of_w, of_b = back(above, x, w, *ctx.settings, [wants_x, wants_w, wants_b])
            of_x = torch.ops.aten.threshold_backward(of_x, x, 0) if wants_x else None
            return of_x, of_w, of_b, None, None
        _, of_w, of_b = back(above, x, w, *ctx.settings, [False, wants_w, wants_b])
        alive = torch.le(x, 0).logical_not_()  # as torch's own, which lets the gradient of NaN pass
        x.untyped_storage().resize_(0)  # x still has its shape, and that is all the kernel looks at
        of_x = back(above, x, w, *ctx.settings, [True, False, False])[0]
        _mask(of_x, alive)
        return of_x, of_w, of_b, None, None


def _mask(gradient: Tensor, alive: Tensor) -> None:
    """Set a gradient to zero where a value is not alive, one sample after another to need little memory."""
    for row, signs in zip(gradient.split(1), alive.split(1), strict=True):
        torch.ops.aten.threshold_backward.grad_input(row, signs.to(row.dtype), 0, grad_input=row)
