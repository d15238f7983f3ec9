"""Images of another size, and channels that become pixels or change places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.openvino.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.openvino.context import OpenVINOOperation


TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
"""Where a pixel takes its value from; ONNX has the same names."""

NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
"""How a place between pixels is rounded."""


@operator_reader("DepthToSpace", "SpaceToDepth")
def space_and_depth(ctx: OpenVINOOperation) -> Tensor:
    """Channels as blocks of pixels, or back."""
    mode = ctx.choice("mode", ("blocks_first", "depth_first"), "blocks_first")
    size = ctx.integer("block_size", 1)
    if ctx.op == "DepthToSpace":
        attributes = {"blocksize": size, "mode": "DCR" if mode == "blocks_first" else "CRD"}
        return Tensor(ctx.add("DepthToSpace", [ctx.x], attributes))
    if mode == "depth_first":
        raise ctx.unsupported("mode=depth_first of SpaceToDepth is not supported")
    return Tensor(ctx.add("SpaceToDepth", [ctx.x], {"blocksize": size}))


@operator_reader("ShuffleChannels")
def shuffle(ctx: OpenVINOOperation) -> Tensor:
    """The channels of groups in turn."""
    axis, groups = ctx.axis(ctx.integer("axis", 1)), ctx.integer("group", 1)
    sizes = ctx.sizes(range(1, ctx.rank()))
    if axis == 0 or groups < 1 or sizes[axis - 1] % groups:
        raise ctx.unsupported(f"shuffles axis {axis} of {sizes} in {groups} groups")
    split = [*sizes[: axis - 1], groups, sizes[axis - 1] // groups, *sizes[axis:]]
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(split) + 1)]
    turned = ctx.transpose(ctx.reshape(ctx.x, [0, *split]), perm)
    return Tensor(ctx.reshape(turned, [0, *sizes]))


@operator_reader("Interpolate")
def interpolate(ctx: OpenVINOOperation) -> Tensor:
    """Images of another size; version 11 has sizes or scales in one input, version 4 both."""
    mode = ctx.choice("mode", ("nearest", "linear", "linear_onnx", "cubic"), "nearest")
    if ctx.flag("antialias") or any(ctx.integer_list("pads_begin")) or any(ctx.integer_list("pads_end")):
        raise ctx.unsupported("antialias or padding is not supported")
    older = ctx.source_layer.opset in {"opset4", "opset1"}
    by_sizes = ctx.choice("shape_calculation_mode", ("sizes", "scales"), "sizes") == "sizes"
    at, places = (1 if by_sizes else 2, 3) if older else (1, 2)
    rank = ctx.rank()
    over = ctx.integers_input(places, "the axes") if len(ctx.inputs) > places else [*range(rank)]
    attributes: dict[str, Any] = {
        "axes": [ctx.axis(axis) for axis in over],
        "mode": mode.split("_")[0],
        "coordinate_transformation_mode": ctx.choice(
            "coordinate_transformation_mode", TRANSFORMATIONS, "half_pixel"
        ),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = ctx.choice("nearest_mode", NEAREST, "round_prefer_floor")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = ctx.number("cube_coeff", -0.75)
    if by_sizes:
        sizes = ctx.integers(ctx.integers_input(at, "the new size"))
        return Tensor(ctx.add("Resize", [ctx.x, None, None, sizes], attributes))
    scales = ctx.constant(ctx.known(at, "the scales").reshape(-1), dtype=np.float32)
    return Tensor(ctx.add("Resize", [ctx.x, None, scales], attributes))
