"""Pooling (maxpool_layer.c, avgpool_layer.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.darknet.call import Call, layer

if TYPE_CHECKING:
    import onnx_ir as ir


@layer("maxpool", "max")
def maxpool(call: Call) -> ir.Value:
    """The largest of each window; ``padding`` (by default size - 1) is the sum of both ends.

    The first window begins ``padding / 2`` before the image. This is Darknet since 2018; earlier releases
    rounded the number of windows down for a size of 2 and a stride of 2.
    """
    return _pool(call, "MaxPool", {})


@layer("local_avgpool", "local_avg")
def local_avgpool(call: Call) -> ir.Value:
    """The mean of each window, over what lies inside the image."""
    return _pool(call, "AveragePool", {"count_include_pad": 0})


def _pool(call: Call, op_type: str, more: dict[str, int]) -> ir.Value:
    section = call.section
    call.refuse_if_set("antialiasing", "maxpool_depth", "maxpool_zero_nonmax")
    x = call.input
    _, height, width = call.image(x)
    stride = section.whole("stride", 1, least=1)
    strides = [section.whole(name, stride, least=1) for name in ("stride_y", "stride_x")]
    size = section.whole("size", stride, least=1)
    padding = section.whole("padding", size - 1, least=0)
    if size > min(height, width) + padding:
        raise call.wrong_shape(f"a window of {size} does not fit in {height} by {width}, padded by {padding}")
    begin = padding // 2
    end = padding - begin
    if end >= size:
        raise section.wrong("padding", f"at most {2 * size - 2}: no window may lie outside the image")
    attributes = {
        "kernel_shape": [size, size],
        "strides": strides,
        "pads": [begin, begin, end, end],
        **more,
    }
    return call.add(op_type, [x], attributes)


@layer("avgpool", "avg")
def avgpool(call: Call) -> ir.Value:
    """The mean of each channel."""
    return call.add("GlobalAveragePool", [call.input])
