"""Operators that move elements."""

from __future__ import annotations

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.nodes.arrays import permutation, repeats_elements, reshaped_sizes, slice_ranges
from netweave.formats.mxnet.symbol import Symbol, group
from netweave.formats.mxnet.writer.table import MXNetNode, writes
from netweave.graph import known_shape


@writes("Concat")
def concat(node: MXNetNode) -> Symbol:
    """After one another along an axis."""
    symbols = [node.symbol(index) for index in range(node.num_inputs)]
    return node.make("Concat", *symbols, dim=node.axis())


@writes("Split")
def split(node: MXNetNode) -> Symbol:
    """Cut along an axis, into equal parts or not."""
    axis, count = node.axis(), len(node.outputs)
    sizes = node.ints(1) if node.has(1) else []
    if len(set(sizes)) <= 1:
        return node.make("SliceChannel", node.symbol(0), num_outputs=count, axis=axis)
    ends = [sum(sizes[: number + 1]) for number in range(count)]
    bounds = zip([0, *ends[:-1]], ends, strict=True)
    return group([node.make("slice_axis", node.symbol(0), axis=axis, begin=a, end=b) for a, b in bounds])


@writes("Slice")
def slice_(node: MXNetNode) -> Symbol:
    """A part along some axes; where its sizes are those of another value, by that value."""
    rank, ranges = node.rank(0), slice_ranges(node)
    begin: list[int | None] = [None] * rank
    end: list[int | None] = [None] * rank
    step: list[int | None] = [None] * rank
    for axis, first, last, stride in ranges:
        begin[axis], step[axis] = first, stride
        end[axis] = last if abs(last) < 1 << 31 else None
    settings = {"step": tuple(step)} if any(stride != 1 for *_, stride in ranges) else {}
    return node.make("slice", node.symbol(0), begin=tuple(begin), end=tuple(end), **settings)


@writes("Flatten")
def flatten(node: MXNetNode) -> Symbol:
    """All axes from one on as one."""
    if node.get("axis") != 1:
        raise NotWritable(f"it flattens from axis {node.get('axis')} on")
    return node.make("Flatten", node.symbol(0))


@writes("Reshape", "Squeeze", "Unsqueeze")
def reshape(node: MXNetNode) -> Symbol:
    """Other sizes; the first axis stays as it is if it is the batch, so that its size stays open."""
    dims = reshaped_sizes(node)
    if not dims:
        raise NotWritable("MXNet 1.x has no single numbers")
    return node.make("Reshape", node.symbol(0), shape=tuple(dims))


@writes("Transpose")
def transpose(node: MXNetNode) -> Symbol:
    """Axes in another order."""
    return node.make("transpose", node.symbol(0), axes=tuple(permutation(node)))


_MODES = ("constant", "edge", "reflect")


@writes("Pad")
def pad(node: MXNetNode) -> Symbol:
    """Elements put around height and width."""
    mode, pads, rank = node.get("mode"), node.ints(1), node.rank(0)
    begin, end = pads[:rank], pads[rank:]
    if (
        mode not in _MODES
        or node.has(3)
        or rank not in {4, 5}
        or any((*begin[:2], *end[:2]))
        or min(pads) < 0
    ):
        raise NotWritable("MXNet pads the spatial axes of 4 or 5, with a number, the edge or a reflection")
    value = float(node.constant(2).reshape(-1)[0]) if mode == "constant" and node.has(2) else 0.0
    width = tuple(size for pair in zip(begin, end, strict=True) for size in pair)
    return node.make("Pad", node.symbol(0), mode=mode, pad_width=width, constant_value=value)


@writes("Resize")
def resize(node: MXNetNode) -> Symbol:
    """Nearest by whole factors, or linear to known sizes."""
    mode, rule = node.get("mode"), node.get("coordinate_transformation_mode")
    old, new = node.shape(0), known_shape(node.outputs[0])
    if len(old) != 4 or new is None or None in (*old[1:], *new[2:]):
        raise NotWritable("its sizes are not known; give the input's sizes")
    if mode == "linear" and rule in {"align_corners", "half_pixel", "pytorch_half_pixel"}:
        settings = {"height": new[2], "width": new[3], "align_corners": rule == "align_corners"}
        return node.make("_contrib_BilinearResize2D", node.symbol(0), **settings)
    factors = [(b or 0) / (a or 1) for a, b in zip(old[2:], new[2:], strict=True)]
    is_whole = all(factor == int(factor) for factor in factors)
    if mode != "nearest" or not is_whole or not repeats_elements(node):
        nearest = node.get("nearest_mode")
        raise NotWritable(f"resizing by {mode} with {rule} and {nearest} is not written")
    return _repeated(node, old[1] or 0, [int(factor) for factor in factors])


def _repeated(node: MXNetNode, channels: int, factors: list[int]) -> Symbol:
    """Repeat each element: MXNet has one factor for both axes; two are a transposed convolution with ones."""
    x = node.symbol(0)
    if len(set(factors)) == 1:
        return node.make("UpSampling", x, scale=factors[0], sample_type="nearest", num_args=1)
    ones = node.constant_array("weight", np.ones((channels, 1, *factors), np.float32))
    settings = {"kernel": tuple(factors), "stride": tuple(factors), "num_group": channels}
    return node.make("Deconvolution", x, ones, num_filter=channels, no_bias=True, **settings)


@writes("DepthToSpace", "SpaceToDepth")
def depth_and_space(node: MXNetNode) -> Symbol:
    """Blocks of pixels to channels or back."""
    if node.get("mode", "DCR") != "DCR":
        raise NotWritable("its order is CRD")
    op = "depth_to_space" if node.op_type == "DepthToSpace" else "space_to_depth"
    return node.make(op, node.symbol(0), block_size=node.get("blocksize"))


@writes("Tile")
def tile(node: MXNetNode) -> Symbol:
    """Several times after one another along each axis."""
    return node.make("tile", node.symbol(0), reps=tuple(node.ints(1)))
