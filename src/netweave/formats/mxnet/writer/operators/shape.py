"""Operators that move elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, written
from netweave.graph import known_shape
from netweave.symbol import group

if TYPE_CHECKING:
    from netweave.symbol import Symbol


@written("Concat")
def concat(call: Call) -> Symbol:
    """After one another along an axis."""
    symbols = [call.symbol(index) for index in range(call.num_inputs)]
    return call.make("Concat", *symbols, dim=call.axis("axis", 1))


@written("Split")
def split(call: Call) -> Symbol:
    """Cut along an axis, into equal parts or not."""
    axis, count = call.axis("axis", 0), len(call.node.outputs)
    sizes = call.wholes(1) if call.has(1) else []
    if len(set(sizes)) <= 1:
        return call.make("SliceChannel", call.symbol(0), num_outputs=count, axis=axis)
    ends = [sum(sizes[: number + 1]) for number in range(count)]
    bounds = zip([0, *ends[:-1]], ends, strict=True)
    return group([call.make("slice_axis", call.symbol(0), axis=axis, begin=a, end=b) for a, b in bounds])


@written("Slice")
def slice_(call: Call) -> Symbol:
    """A part along some axes; where its sizes are those of another value, by that value."""
    starts, ends = call.wholes(1), call.wholes(2)
    axes = call.wholes(3) if call.has(3) else list(range(len(starts)))
    steps = call.wholes(4) if call.has(4) else [1] * len(starts)
    rank = call.rank(0)
    begin: list[int | None] = [None] * rank
    end: list[int | None] = [None] * rank
    step: list[int | None] = [None] * rank
    for axis, first, last, stride in zip(axes, starts, ends, steps, strict=True):
        if stride < 1:
            raise Refused("a step back is not written")
        begin[axis % rank], step[axis % rank] = first, stride
        end[axis % rank] = last if abs(last) < 1 << 31 else None
    settings = {"step": tuple(step)} if set(steps) != {1} else {}
    return call.make("slice", call.symbol(0), begin=tuple(begin), end=tuple(end), **settings)


@written("Flatten")
def flatten(call: Call) -> Symbol:
    """All axes from one on as one."""
    if call.get("axis", 1) != 1:
        raise Refused(f"it flattens from axis {call.get('axis')} on")
    return call.make("Flatten", call.symbol(0))


@written("Reshape", "Squeeze", "Unsqueeze")
def reshape(call: Call) -> Symbol:
    """Other sizes; the first axis stays as it is if it is the batch, so that its size stays open."""
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if new is None:
        raise Refused("its sizes are computed")
    is_batch = bool(old and new) and old[0] == new[0]
    dims = [0 if axis == 0 and is_batch else -1 if size is None else size for axis, size in enumerate(new)]
    if dims.count(-1) > 1:
        raise Refused("more than one of its sizes is not known; give the input's sizes")
    if not dims:
        raise Refused("MXNet 1.x has no single numbers")
    return call.make("Reshape", call.symbol(0), shape=tuple(dims))


@written("Transpose")
def transpose(call: Call) -> Symbol:
    """Axes in another order."""
    perm = call.get("perm") or list(range(call.rank(0)))[::-1]
    return call.make("transpose", call.symbol(0), axes=tuple(perm))


_MODES = ("constant", "edge", "reflect")


@written("Pad")
def pad(call: Call) -> Symbol:
    """Elements put around height and width."""
    mode, pads, rank = call.get("mode", "constant"), call.wholes(1), call.rank(0)
    begin, end = pads[:rank], pads[rank:]
    if (
        mode not in _MODES
        or call.has(3)
        or rank not in {4, 5}
        or any((*begin[:2], *end[:2]))
        or min(pads) < 0
    ):
        raise Refused("MXNet pads the spatial axes of 4 or 5, with a number, the edge or a reflection")
    value = float(call.constant(2).reshape(-1)[0]) if mode == "constant" and call.has(2) else 0.0
    width = tuple(size for pair in zip(begin, end, strict=True) for size in pair)
    return call.make("Pad", call.symbol(0), mode=mode, pad_width=width, constant_value=value)


@written("Resize")
def resize(call: Call) -> Symbol:
    """Nearest by whole factors, or linear to known sizes."""
    mode, rule = call.get("mode", "nearest"), call.get("coordinate_transformation_mode", "half_pixel")
    old, new = call.shape(0), known_shape(call.node.outputs[0])
    if len(old) != 4 or new is None or None in (*old[1:], *new[2:]):
        raise Refused("its sizes are not known; give the input's sizes")
    if mode == "linear" and rule in {"align_corners", "half_pixel", "pytorch_half_pixel"}:
        settings = {"height": new[2], "width": new[3], "align_corners": rule == "align_corners"}
        return call.make("_contrib_BilinearResize2D", call.symbol(0), **settings)
    factors = [(b or 0) / (a or 1) for a, b in zip(old[2:], new[2:], strict=True)]
    nearest = call.get("nearest_mode", "round_prefer_floor")
    repeats = nearest == "floor" if rule == "asymmetric" else nearest.startswith("round")
    is_whole = all(factor == int(factor) for factor in factors)
    if mode != "nearest" or not is_whole or not repeats or rule == "align_corners":
        raise Refused(f"resizing by {mode} with {rule} and {nearest} is not written")
    return _repeated(call, old[1] or 0, [int(factor) for factor in factors])


def _repeated(call: Call, channels: int, factors: list[int]) -> Symbol:
    """Repeat each element: MXNet has one factor for both axes; two are a transposed convolution with ones."""
    x = call.symbol(0)
    if len(set(factors)) == 1:
        return call.make("UpSampling", x, scale=factors[0], sample_type="nearest", num_args=1)
    ones = call.constant_array("weight", np.ones((channels, 1, *factors), np.float32))
    settings = {"kernel": tuple(factors), "stride": tuple(factors), "num_group": channels}
    return call.make("Deconvolution", x, ones, num_filter=channels, no_bias=True, **settings)


@written("DepthToSpace", "SpaceToDepth")
def depth_and_space(call: Call) -> Symbol:
    """Blocks of pixels to channels or back."""
    if call.get("mode", "DCR") != "DCR":
        raise Refused("its order is CRD")
    op = "depth_to_space" if call.node.op_type == "DepthToSpace" else "space_to_depth"
    return call.make(op, call.symbol(0), block_size=call.get("blocksize"))


@written("Tile")
def tile(call: Call) -> Symbol:
    """Several times after one another along each axis."""
    return call.make("tile", call.symbol(0), reps=tuple(call.wholes(1)))
