"""Quantization in torch: integers that stand for ``(integer - zero point) * scale``."""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.runtime.backends.torch.convolution import conv
from netweave.runtime.backends.torch.operator_table import Ints, lowering, torch_dtype

# Along an axis each output element is a weighted sum of a few input elements. Where they lie depends on the
# coordinate rule, their weights on the mode; both are worked out in float64 when the sizes are known.


def _spread(parameter: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Tensor:
    """Shape a scale or zero point against ``x``: one for all, one per slice or one per block of an axis."""
    if block_size:
        whole = parameter.repeat_interleave(block_size, axis)
        return whole.narrow(axis, 0, x.shape[axis])
    if parameter.numel() == 1:
        return parameter.reshape(())
    return parameter.reshape(-1, *[1] * (x.ndim - 1 - axis % x.ndim))


def _quantized(x: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: torch.dtype) -> Tensor:
    """Return ``x`` in steps of ``scale``, rounded to even and kept within the integer type."""
    steps = torch.round(x / scale)
    if zero_point is not None:
        steps = steps + zero_point.to(steps.dtype)
    bounds = torch.iinfo(dtype)
    return steps.clamp(bounds.min, bounds.max).to(dtype)


def _centred(x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    whole = x.to(torch.int32)
    return whole if zero_point is None else whole - _spread(zero_point.to(torch.int32), x, axis)


@lowering("QuantizeLinear", since=21)
def quantize_linear(
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Return the nearest integers."""
    if y_zero_point is not None:
        dtype = y_zero_point.dtype
        y_zero_point = _spread(y_zero_point, x, axis, block_size)
    else:
        dtype = torch_dtype(output_dtype) if output_dtype else torch.uint8
    return _quantized(x, _spread(y_scale, x, axis, block_size), y_zero_point, dtype)


@lowering("DequantizeLinear", since=21)
def dequantize_linear(
    x: Tensor, x_scale: Tensor, x_zero_point: Tensor | None = None, *, axis: int = 1, block_size: int = 0
) -> Tensor:
    """Return the real numbers."""
    whole = x.to(torch.int32)
    if x_zero_point is not None:
        whole = whole - _spread(x_zero_point.to(torch.int32), x, axis, block_size)
    return whole.to(x_scale.dtype) * _spread(x_scale, x, axis, block_size)


@lowering("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> tuple[Tensor, ...]:
    """Return uint8, scale and zero point that just hold the range of ``x`` and zero."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    zero_point = torch.round(-low / scale).clamp(0, 255).to(torch.uint8)
    return _quantized(x, scale, zero_point, torch.uint8), scale, zero_point


@lowering("MatMulInteger", since=10)
def matmul_integer(
    a: Tensor, b: Tensor, a_zero_point: Tensor | None = None, b_zero_point: Tensor | None = None
) -> Tensor:
    """Multiply in int32; zero points of ``a`` are per row, of ``b`` per column."""
    return _centred(a, a_zero_point, -2) @ _centred(b, b_zero_point, -1)


@lowering("ConvInteger", since=10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Correlate in float64, which holds the sums exactly; torch has no kernel for integers."""
    y = conv(
        _centred(x, x_zero_point, 1).to(torch.float64),
        _centred(w, w_zero_point, 0).to(torch.float64),
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    return y.to(torch.int32)


@lowering("QLinearMatMul", since=10)
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """Multiply integers and bring the product to the output's scale."""
    product = matmul_integer(a, b, a_zero_point, b_zero_point).to(torch.float64)
    scale = _spread(a_scale, a, -2).to(torch.float64) * _spread(b_scale, b, -1) / y_scale
    return _quantized(product * scale, torch.ones_like(scale), y_zero_point, y_zero_point.dtype)


@lowering("QLinearConv", since=10)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Correlate integers and bring the sums to the output's scale; the bias has the sums' own scale."""
    sums = conv_integer(
        x,
        w,
        x_zero_point,
        w_zero_point,
        auto_pad=auto_pad,
        dilations=dilations,
        group=group,
        pads=pads,
        strides=strides,
    )
    if b is not None:
        sums = sums + _spread(b, sums, 1)
    scale = x_scale.to(torch.float64) * _spread(w_scale, sums, 1) / y_scale
    return _quantized(sums * scale, torch.ones_like(scale), y_zero_point, y_zero_point.dtype)
