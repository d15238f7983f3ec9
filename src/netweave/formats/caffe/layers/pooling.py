"""Pooling layers of Caffe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering.windows import Window
from netweave.graph.ops.pooling import pooling as pooling_operator

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


_SMALLEST = float(np.finfo(np.float32).tiny)
"""What Caffe adds to the sum of a stochastic window, so that an empty one gives 0."""


@layer("Pooling", tops=(1, 2))
def pooling(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Maximum, average, or the expectation of stochastic pooling; sizes are rounded up, then cut."""
    parameter = ctx.spec["pooling_param"]
    if ctx.rank() != 4:
        raise ctx.shape_error(f"pools over the last two of four axes, found {ctx.rank()} axes")
    if parameter["global_pooling"]:
        return _global(ctx, parameter)
    kernel = _pair(ctx, parameter, "kernel_size", "kernel")
    strides = _pair(ctx, parameter, "stride", "stride")
    pads = _pair(ctx, parameter, "pad", "pad")
    window = Window(kernel, strides=strides, pads=pads)
    window.check(ctx, parameter.line, is_pooling=True)
    return _pooled(ctx, parameter, window)


def _global(ctx: CaffeLayer, parameter: Message) -> Sequence[ir.Value]:
    for name in ("kernel_size", "kernel_h", "kernel_w"):
        if name in parameter:
            raise ctx.read_error(
                f"has 'global_pooling' and {name!r}, expected one of them", parameter.line_of(name)
            )
    if any(parameter[name] for name in ("pad", "pad_h", "pad_w")) or any(
        name in parameter and parameter[name] != 1 for name in ("stride", "stride_h", "stride_w")
    ):
        raise ctx.read_error("'global_pooling' requires padding 0 and stride 1", parameter.line)
    op_type = {"MAX": "GlobalMaxPool", "AVE": "GlobalAveragePool"}.get(parameter["pool"])
    if op_type is None or len(ctx.tops) > 1:
        return _pooled(ctx, parameter, Window(ctx.sizes([2, 3])))
    return [ctx.add(op_type, [ctx.x], top=0)]


def _pair(ctx: CaffeLayer, parameter: Message, name: str, short: str) -> list[int]:
    pair = [f"{short}_h", f"{short}_w"]
    given = [each for each in pair if each in parameter]
    if given and (name in parameter or len(given) == 1):
        raise ctx.read_error(
            f"expected {name!r}, or both {pair[0]!r} and {pair[1]!r}", parameter.line_of(given[0])
        )
    if not given and name not in parameter and name == "kernel_size":
        raise ctx.read_error("has no 'kernel_size'", parameter.line)
    return [parameter[each] for each in pair] if given else [parameter[name]] * 2


def _pooled(ctx: CaffeLayer, parameter: Message, window: Window, *, top: int | None = 0) -> list[ir.Value]:
    window.check_fits(ctx, ctx.shape()[2:])
    method = parameter["pool"]
    if method == "STOCHASTIC" and any(window.pads):
        raise ctx.read_error("stochastic pooling has no padding", parameter.line_of("pad"))
    domain, op_type, attributes = pooling_operator(
        method != "MAX",
        kernel=window.kernel,
        strides=window.strides,
        pads=window.onnx_pads,
        rounding="floor" if rounds_down(parameter) else "caffe",
        count_include_pad=bool(parameter.get("avg_include_pad", True)),
    )
    x = ctx.x
    if method == "STOCHASTIC":
        square = ctx.add(op_type, [ctx.add("Mul", [x, x])], attributes, domain=domain)
        mean = ctx.add(op_type, [x], attributes, domain=domain)
        return [ctx.add("Div", [square, ctx.add("Add", [mean, ctx.constant(_SMALLEST)])], top=top)]
    if len(ctx.tops) == 1:
        return [ctx.add(op_type, [x], attributes, domain=domain, top=top)]
    return _with_positions(ctx, domain, op_type, attributes)


def rounds_down(parameter: Message) -> bool:
    """Return whether sizes are rounded down, as BVLC's later versions and other branches can be told."""
    return parameter.get("round_mode", "CEIL") == "FLOOR" or not parameter.get("ceil_mode", True)


def _with_positions(
    ctx: CaffeLayer, domain: str, op_type: str, attributes: dict[str, object]
) -> list[ir.Value]:
    """Add the second top of a maximum pooling: where in its plane each maximum lies, as a float."""
    if op_type != "MaxPool" or domain:
        raise ctx.unsupported(
            "a second top (positions) is supported only for max pooling with the same windows as in ONNX"
        )
    y, positions = ctx.add_many("MaxPool", [ctx.x], attributes, outputs=[ctx.tops[0], ""])
    plane = ctx.constant(ctx.size(2) * ctx.size(3), dtype="int64")
    local = ctx.add("Mod", [positions, plane])
    return [y, ctx.add("Cast", [local], {"to": ir.DataType.FLOAT}, top=1)]


@layer("SPP")
def spatial_pyramid(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Poolings into 1, 2x2, 4x4, ... bins, flattened and put one after the other."""
    parameter = ctx.spec["spp_param"]
    height = parameter["pyramid_height"]
    if not 1 <= height <= 16:
        raise ctx.read_error(f"'pyramid_height' is {height}, expected 1 to 16", parameter.line)
    levels = []
    for level in range(height):
        bins = 2**level
        kernel = [-(-ctx.size(axis) // bins) for axis in (2, 3)]
        pads = [(k * bins - ctx.size(axis) + 1) // 2 for axis, k in zip((2, 3), kernel, strict=True)]
        if any(pad >= size for pad, size in zip(pads, kernel, strict=True)):
            raise ctx.shape_error(f"{ctx.size(2)}x{ctx.size(3)} elements are too few for {bins}x{bins} bins")
        (pooled,) = _pooled(
            ctx, parameter, Window(kernel, strides=kernel, pads=pads), top=0 if height == 1 else None
        )
        if height == 1:
            return [pooled]
        levels.append(ctx.add("Flatten", [pooled], {"axis": 1}))
    return [ctx.add("Concat", levels, {"axis": 1}, top=0)]
