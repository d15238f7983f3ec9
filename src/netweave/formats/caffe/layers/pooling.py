"""Pooling and SPP: ``pooling_layer.cpp``, ``spp_layer.cpp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.caffe.call import Call, layer
from netweave.graph.ops.pooling import pooling as pooling_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message

_SMALLEST = float(np.finfo(np.float32).tiny)
"""What Caffe adds to the sum of a stochastic window, so that an empty one gives 0."""


@layer("Pooling", tops=(1, 2))
def pooling(call: Call) -> Sequence[ir.Value]:
    """Maximum, average, or the expectation of stochastic pooling; sizes are rounded up, then cut."""
    parameter = call.spec["pooling_param"]
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"pools over the last two of four axes, found {len(call.shape())} axes")
    if parameter["global_pooling"]:
        return _global(call, parameter)
    kernel = _pair(call, parameter, "kernel_size", "kernel")
    strides = _pair(call, parameter, "stride", "stride")
    pads = _pair(call, parameter, "pad", "pad")
    if min(kernel) < 1 or min(strides) < 1:
        raise call.wrong(f"kernel is {kernel}, stride {strides}, expected 1 or more", parameter.line)
    if any(pad >= size for pad, size in zip(pads, kernel, strict=True)):
        raise call.wrong(f"padding {pads} must be less than the kernel {kernel}", parameter.line)
    return _pooled(call, parameter, kernel, strides, pads)


def _global(call: Call, parameter: Message) -> Sequence[ir.Value]:
    for name in ("kernel_size", "kernel_h", "kernel_w"):
        if name in parameter:
            raise call.wrong(
                f"has 'global_pooling' and {name!r}, expected one of them", parameter.line_of(name)
            )
    if any(parameter[name] for name in ("pad", "pad_h", "pad_w")) or any(
        name in parameter and parameter[name] != 1 for name in ("stride", "stride_h", "stride_w")
    ):
        raise call.wrong("'global_pooling' goes with padding 0 and stride 1", parameter.line)
    op_type = {"MAX": "GlobalMaxPool", "AVE": "GlobalAveragePool"}.get(parameter["pool"])
    if op_type is None or len(call.tops) > 1:
        return _pooled(call, parameter, [call.size(2), call.size(3)], [1, 1], [0, 0])
    return [call.add(op_type, [call.bottoms[0]], top=0)]


def _pair(call: Call, parameter: Message, name: str, short: str) -> list[int]:
    pair = [f"{short}_h", f"{short}_w"]
    given = [each for each in pair if each in parameter]
    if given and (name in parameter or len(given) == 1):
        raise call.wrong(
            f"expected {name!r}, or both {pair[0]!r} and {pair[1]!r}", parameter.line_of(given[0])
        )
    if not given and name not in parameter and name == "kernel_size":
        raise call.wrong("has no 'kernel_size'", parameter.line)
    return [parameter[each] for each in pair] if given else [parameter[name]] * 2


def _pooled(
    call: Call,
    parameter: Message,
    kernel: list[int],
    strides: list[int],
    pads: list[int],
    *,
    top: int | None = 0,
) -> list[ir.Value]:
    for axis, (window, pad) in enumerate(zip(kernel, pads, strict=True), start=2):
        size = call.shape()[axis]
        if size is not None and size + 2 * pad < window:
            raise call.wrong_shape(f"a window of {window} does not fit in {size} elements with padding {pad}")
    method = parameter["pool"]
    if method == "STOCHASTIC" and any(pads):
        raise call.wrong("stochastic pooling has no padding", parameter.line_of("pad"))
    domain, op_type, attributes = pooling_operator(
        method != "MAX",
        kernel=kernel,
        strides=strides,
        pads=pads + pads,
        rounding="floor" if rounds_down(parameter) else "caffe",
        count_include_pad=bool(parameter.get("avg_include_pad", True)),
    )
    x = call.bottoms[0]
    if method == "STOCHASTIC":
        square = call.add(op_type, [call.add("Mul", [x, x])], attributes, domain=domain)
        mean = call.add(op_type, [x], attributes, domain=domain)
        return [call.add("Div", [square, call.add("Add", [mean, call.constant(_SMALLEST)])], top=top)]
    if len(call.tops) == 1:
        return [call.add(op_type, [x], attributes, domain=domain, top=top)]
    return _with_positions(call, domain, op_type, attributes)


def rounds_down(parameter: Message) -> bool:
    """Whether sizes are rounded down, as BVLC's later versions and other branches can be told."""
    return parameter.get("round_mode", "CEIL") == "FLOOR" or not parameter.get("ceil_mode", True)


def _with_positions(call: Call, domain: str, op_type: str, attributes: dict[str, object]) -> list[ir.Value]:
    """Add the second top of a maximum pooling: where in its plane each maximum lies, as a float."""
    if op_type != "MaxPool" or domain:
        raise call.unsupported("a second top (positions) is read only of maximum pooling with ONNX's windows")
    y, positions = call.builder.add_many("MaxPool", [call.bottoms[0]], attributes, outputs=[call.tops[0], ""])
    plane = call.constant(call.size(2) * call.size(3), dtype="int64")
    local = call.add("Mod", [positions, plane])
    return [y, call.add("Cast", [local], {"to": 1}, top=1)]


@layer("SPP")
def spatial_pyramid(call: Call) -> Sequence[ir.Value]:
    """Poolings into 1, 2x2, 4x4, ... bins, flattened and put one after the other."""
    parameter = call.spec["spp_param"]
    height = parameter["pyramid_height"]
    if not 1 <= height <= 16:
        raise call.wrong(f"'pyramid_height' is {height}, expected 1 to 16", parameter.line)
    levels = []
    for level in range(height):
        bins = 2**level
        kernel = [-(-call.size(axis) // bins) for axis in (2, 3)]
        pads = [(k * bins - call.size(axis) + 1) // 2 for axis, k in zip((2, 3), kernel, strict=True)]
        if any(pad >= size for pad, size in zip(pads, kernel, strict=True)):
            raise call.wrong_shape(
                f"{call.size(2)}x{call.size(3)} elements are too few for {bins}x{bins} bins"
            )
        (pooled,) = _pooled(call, parameter, kernel, kernel, pads, top=0 if height == 1 else None)
        if height == 1:
            return [pooled]
        levels.append(call.add("Flatten", [pooled], {"axis": 1}))
    return [call.add("Concat", levels, {"axis": 1}, top=0)]
