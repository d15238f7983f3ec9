"""Pooling (maxpool_layer.c, avgpool_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.lowering.windows import Window

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("maxpool", "max")
def maxpool(ctx: DarknetLayer) -> ir.Value:
    """The largest of each window; ``padding`` (by default size - 1) is the sum of both ends.

    The first window begins ``padding / 2`` before the image. This is Darknet since 2018; earlier releases
    rounded the number of windows down for a size of 2 and a stride of 2.
    """
    return _pool(ctx, "MaxPool", {})


@layer("local_avgpool", "local_avg")
def local_avgpool(ctx: DarknetLayer) -> ir.Value:
    """The mean of each window, over what lies inside the image."""
    return _pool(ctx, "AveragePool", {"count_include_pad": 0})


def _pool(ctx: DarknetLayer, op_type: str, more: dict[str, int]) -> ir.Value:
    section = ctx.section
    ctx.expect_unset("antialiasing", "maxpool_depth", "maxpool_zero_nonmax")
    _, height, width = ctx.image()
    size = section.integer("size", section.integer("stride", 1, least=1), least=1)
    padding = section.integer("padding", size - 1, least=0)
    begin, end = padding // 2, padding - padding // 2
    window = Window([size, size], strides=section.strides(), pads=[begin, begin], end_pads=[end, end])
    window.check(ctx, section.lines.get("padding"), is_pooling=True)
    window.check_fits(ctx, (height, width))
    attributes = {"kernel_shape": window.kernel, "strides": window.strides, "pads": window.onnx_pads}
    return ctx.add(op_type, [ctx.x], attributes | more)


@layer("avgpool", "avg")
def avgpool(ctx: DarknetLayer) -> ir.Value:
    """The mean of each channel."""
    return ctx.add("GlobalAveragePool", [ctx.x])
