"""Layers of other branches that make an image larger or smaller: Upsample, Interp."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering.resizing import repeat_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message


@layer("Upsample", bottoms=(1, 2))
def upsample(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Each element repeated; with a second bottom, put back where a maximum pooling found it.

    The one is of YOLO's ports, the other of SegNet and ENet, both named ``upsample_layer.cpp``.
    """
    ctx.require_rank(4)
    parameter = ctx.spec["upsample_param"]
    if len(ctx.bottoms) == 2:
        return [_unpooled(ctx, _unpooled_size(ctx, parameter))]
    for name in ("scale_h", "scale_w", "upsample_h", "upsample_w", "pad_out_h", "pad_out_w"):
        if name in parameter:
            raise ctx.read_error(
                f"{name!r} requires a second bottom with the positions of a max pooling",
                parameter.line_of(name),
            )
    factor = parameter.get("scale", 1)
    if factor < 1:
        raise ctx.read_error(f"'scale' is {factor}, expected 1 or more", parameter.line_of("scale"))
    return [repeat_elements(ctx, ctx.x, factor, name=ctx.tops[0])]


def _unpooled_size(ctx: CaffeLayer, parameter: Message) -> list[int]:
    """Return height and width as they are said, or by factors less the padding."""
    if "upsample_h" in parameter and "upsample_w" in parameter:
        return [parameter["upsample_h"], parameter["upsample_w"]]
    found = []
    for axis, side in ((2, "h"), (3, "w")):
        factor = parameter.get(f"scale_{side}", parameter["scale"])
        padded = parameter[f"pad_out_{side}"]
        if factor < 2 or (padded and factor != 2):
            raise ctx.read_error(
                f"scale is {factor}, expected 2 or more, and 2 with 'pad_out_{side}'", parameter.line
            )
        found.append(ctx.size(axis) * factor - int(padded))
    return found


def _unpooled(ctx: CaffeLayer, size: list[int]) -> ir.Value:
    """Put each element at its place within its plane; the rest is 0."""
    if ctx.shape() != ctx.shape(ctx.bottoms[1]):
        raise ctx.shape_error(
            f"its bottoms must have the same shape, found {ctx.shape()} and {ctx.shape(ctx.bottoms[1])}"
        )
    channels, (height, width) = ctx.size(1), size
    if height * width < ctx.size(2) * ctx.size(3):
        raise ctx.shape_error(
            f"{height}x{width} elements are too few for the input of {ctx.size(2)}x{ctx.size(3)}"
        )
    x, places = (ctx.reshape(bottom, [0, 0, -1]) for bottom in ctx.bottoms)
    batch = ctx.add("Shape", [ctx.x], {"start": 0, "end": 1})
    planes = ctx.concat([batch, ctx.integers([channels, height * width])], 0)
    empty = ctx.add("Expand", [ctx.constant([[[0.0]]]), planes])
    numbers = ctx.cast(places, ir.DataType.INT64)
    flat = ctx.add("ScatterElements", [empty, numbers, x], {"axis": 2})
    return ctx.as_top(ctx.reshape(flat, [0, channels, height, width]))


@layer("Interp", bottoms=(1, 2))
def interp(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Linear between the corners, which stay corners: DeepLab's and PSPNet's ``interp_layer.cpp``.

    A second bottom gives height and width.
    """
    parameter = ctx.spec["interp_param"]
    ctx.require_rank(4)
    pads = [parameter["pad_beg"], parameter["pad_end"]]
    if max(pads) > 0:
        raise ctx.read_error(
            f"'pad_beg' and 'pad_end' are {pads}, expected 0 or less, since they crop", parameter.line
        )
    cut = [ctx.size(axis) + sum(pads) for axis in (2, 3)]
    if min(cut) < 1:
        raise ctx.shape_error(f"crops {-sum(pads)} of {ctx.size(2)}x{ctx.size(3)} elements")
    x = ctx.x
    if any(pads):
        borders = ([-pads[0]] * 2, [-pads[0] + size for size in cut], [2, 3])
        x = ctx.add("Slice", [x, *(ctx.integers(border) for border in borders)])
    size = _interp_size(ctx, parameter, cut)
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "axes": [2, 3]}
    return [ctx.add("Resize", [x, None, None, ctx.integers(size)], attributes, top=0)]


def _interp_size(ctx: CaffeLayer, parameter: Message, size: list[int]) -> list[int]:
    """Return height and width: by factors where one is given, then as they are said."""
    if len(ctx.bottoms) == 2:
        return [ctx.size(2, ctx.bottoms[1]), ctx.size(3, ctx.bottoms[1])]
    given = [name for name in ("shrink_factor", "zoom_factor") if name in parameter]
    for name in given:
        if parameter[name] < 1:
            raise ctx.read_error(
                f"{name!r} is {parameter[name]}, expected 1 or more", parameter.line_of(name)
            )
    sides = [parameter["height"], parameter["width"]]
    if len(given) == 1 or (given and not ("height" in parameter and "width" in parameter)):
        shrunk = [(side - 1) // parameter["shrink_factor"] + 1 for side in size]
        return [side + (side - 1) * (parameter["zoom_factor"] - 1) for side in shrunk]
    if min(sides) < 1:
        raise ctx.read_error(
            "has neither 'zoom_factor' nor 'shrink_factor', nor 'height' and 'width' above 0", parameter.line
        )
    return sides
