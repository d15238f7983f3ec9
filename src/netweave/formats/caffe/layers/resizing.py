"""Layers of other branches that make an image larger or smaller: Upsample, Interp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message

_INT64 = 7
"""ONNX's number of the type int64."""

_REPEATS = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@layer("Upsample", bottoms=(1, 2))
def upsample(call: Call) -> Sequence[ir.Value]:
    """Each element repeated; with a second bottom, put back where a maximum pooling found it.

    The one is of YOLO's ports, the other of SegNet and ENet, both named ``upsample_layer.cpp``.
    """
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape())}")
    parameter = call.spec["upsample_param"]
    if len(call.bottoms) == 2:
        return [_unpooled(call, _unpooled_size(call, parameter))]
    for name in ("scale_h", "scale_w", "upsample_h", "upsample_w", "pad_out_h", "pad_out_w"):
        if name in parameter:
            raise call.wrong(
                f"{name!r} goes with a second bottom, the places of a maximum pooling",
                parameter.line_of(name),
            )
    factor = parameter.get("scale", 1)
    if factor < 1:
        raise call.wrong(f"'scale' is {factor}, expected 1 or more", parameter.line_of("scale"))
    factors = call.constant([1.0, 1.0, factor, factor])
    return [call.add("Resize", [call.bottoms[0], None, factors], _REPEATS, top=0)]


def _unpooled_size(call: Call, parameter: Message) -> list[int]:
    """Return height and width as they are said, or by factors less the padding."""
    if "upsample_h" in parameter and "upsample_w" in parameter:
        return [parameter["upsample_h"], parameter["upsample_w"]]
    found = []
    for axis, side in ((2, "h"), (3, "w")):
        factor = parameter.get(f"scale_{side}", parameter["scale"])
        padded = parameter[f"pad_out_{side}"]
        if factor < 2 or (padded and factor != 2):
            raise call.wrong(
                f"scale is {factor}, expected 2 or more, and 2 with 'pad_out_{side}'", parameter.line
            )
        found.append(call.size(axis) * factor - int(padded))
    return found


def _unpooled(call: Call, size: list[int]) -> ir.Value:
    """Put each element at its place within its plane; the rest is 0."""
    if call.shape(0) != call.shape(1):
        raise call.wrong_shape(f"its bottoms must be of one size, found {call.shape(0)} and {call.shape(1)}")
    channels, (height, width) = call.size(1), size
    if height * width < call.size(2) * call.size(3):
        raise call.wrong_shape(
            f"{height}x{width} elements are too few for the {call.size(2)}x{call.size(3)} that come in"
        )
    x, places = (_shaped(call, bottom, [0, 0, -1]) for bottom in call.bottoms)
    batch = call.add("Shape", [call.bottoms[0]], {"start": 0, "end": 1})
    planes = call.add("Concat", [batch, _ints(call, [channels, height * width])], {"axis": 0})
    empty = call.add("Expand", [call.constant([[[0.0]]]), planes])
    numbers = call.add("Cast", [places], {"to": _INT64})
    flat = call.add("ScatterElements", [empty, numbers, x], {"axis": 2})
    return _shaped(call, flat, [0, channels, height, width], top=0)


@layer("Interp", bottoms=(1, 2))
def interp(call: Call) -> Sequence[ir.Value]:
    """Linear between the corners, which stay corners: DeepLab's and PSPNet's ``interp_layer.cpp``.

    A second bottom gives height and width.
    """
    parameter = call.spec["interp_param"]
    if len(call.shape()) != 4:
        raise call.wrong_shape(f"needs four axes, found {len(call.shape())}")
    pads = [parameter["pad_beg"], parameter["pad_end"]]
    if max(pads) > 0:
        raise call.wrong(f"'pad_beg' and 'pad_end' are {pads}, expected 0 or less: they cut", parameter.line)
    cut = [call.size(axis) + sum(pads) for axis in (2, 3)]
    if min(cut) < 1:
        raise call.wrong_shape(f"cuts {-sum(pads)} of {call.size(2)}x{call.size(3)} elements")
    x = call.bottoms[0]
    if any(pads):
        borders = ([-pads[0]] * 2, [-pads[0] + size for size in cut], [2, 3])
        x = call.add("Slice", [x, *(_ints(call, border) for border in borders)])
    size = _interp_size(call, parameter, cut)
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "axes": [2, 3]}
    return [call.add("Resize", [x, None, None, _ints(call, size)], attributes, top=0)]


def _interp_size(call: Call, parameter: Message, size: list[int]) -> list[int]:
    """Return height and width: by factors where one is given, then as they are said."""
    if len(call.bottoms) == 2:
        return [call.size(2, index=1), call.size(3, index=1)]
    given = [name for name in ("shrink_factor", "zoom_factor") if name in parameter]
    for name in given:
        if parameter[name] < 1:
            raise call.wrong(f"{name!r} is {parameter[name]}, expected 1 or more", parameter.line_of(name))
    sides = [parameter["height"], parameter["width"]]
    if len(given) == 1 or (given and not ("height" in parameter and "width" in parameter)):
        shrunk = [(side - 1) // parameter["shrink_factor"] + 1 for side in size]
        return [side + (side - 1) * (parameter["zoom_factor"] - 1) for side in shrunk]
    if min(sides) < 1:
        raise call.wrong(
            "has neither 'zoom_factor' nor 'shrink_factor', nor 'height' and 'width' above 0", parameter.line
        )
    return sides


def _ints(call: Call, numbers: Sequence[int]) -> ir.Value:
    return call.constant(list(numbers), dtype="int64")


def _shaped(call: Call, value: ir.Value, shape: list[int], *, top: int | None = None) -> ir.Value:
    return call.add("Reshape", [value, _ints(call, shape)], top=top)
