"""Poolings (keras/layers/pooling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.keras.registry import layer_reader
from netweave.lowering.channels_last import Tensor, axes, windows

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer


@layer_reader("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D")
@layer_reader("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
@layer_reader("AvgPool1D", "AvgPool2D", "AvgPool3D")
def pooling(ctx: KerasLayer) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor."""
    kernel = ctx.per_axis("pool_size", ctx.spatial_rank, 2)
    strides = ctx.per_axis("strides", ctx.spatial_rank, kernel)
    op_type = "MaxPool" if ctx.type.startswith("Max") else "AveragePool"
    window = windows.PaddedWindow.of(kernel, strides, ctx.padding())
    return windows.pooling(ctx, ctx.x, op_type, window, last=ctx.is_last())


@layer_reader("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
@layer_reader("GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D")
@layer_reader("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D")
@layer_reader("GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D")
def global_pooling(ctx: KerasLayer) -> Tensor:
    """Over all places; a mean over time leaves out the steps that do not count."""
    mask = ctx.mask(ctx.x)
    if mask is not None and ctx.type in {"GlobalAveragePooling1D", "GlobalAvgPool1D"}:
        return _counted_mean(ctx, mask)
    op_type = "ReduceMax" if "Max" in ctx.type else "ReduceMean"
    over = range(1, ctx.rank() - 1) if ctx.is_last() else range(2, ctx.rank())
    return axes.reduce(ctx, op_type, ctx.x, over, keep=ctx.boolean("keepdims", False))


def _counted_mean(ctx: KerasLayer, mask: Tensor) -> Tensor:
    """Return the mean over the steps that count."""
    time = 1 if ctx.is_last() else 2
    counts = ctx.as_type(axes.widen(ctx, mask, [3 - time]), ctx.x.value.dtype or ir.DataType.FLOAT)
    keep = ctx.boolean("keepdims", False)
    total = axes.reduce(ctx, "ReduceSum", ctx.broadcast("Mul", [ctx.x, counts]), [time], keep=keep)
    return ctx.broadcast("Div", [total, axes.reduce(ctx, "ReduceSum", counts, [time], keep=keep)])
