"""Shapes and indexing of TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor, layer
from netweave.formats.lowering.channels_last.layer import gather
from netweave.formats.lowering.channels_last.windows import position
from netweave.formats.lowering.indexing import FAR
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.folding import strided_index
from netweave.formats.tensorflow.nodes import TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Handle, Item, Open, Sizes, numbers_of, of_numbers


@operator_reader("Shape", "ShapeN", plain=True)
def shape(ctx: TensorFlowOperation) -> list[Item]:
    """The sizes of tensors; an open one stays so."""
    dtype = DTYPES.get(str(ctx.attribute("out_type")), np.dtype(np.int32))
    return [_sizes(ctx, x, dtype) for x in ctx.operands()]


def _sizes(ctx: TensorFlowOperation, x: Tensor | Stored, dtype: np.dtype[np.generic]) -> Item:
    sizes = ctx.shape(x)
    if not sizes:
        return Stored.constant(np.zeros(0, dtype))
    numbers = np.empty(len(sizes), dtype=object)
    for axis, size in enumerate(sizes):
        numbers[axis] = size
        if size is None and isinstance(x, Tensor):
            numbers[axis] = Open(x.value, position(axis, len(sizes), first=x.first))
    return of_numbers(numbers, dtype)


@operator_reader("Rank", plain=True)
def rank(ctx: TensorFlowOperation) -> Item:
    """Number of axes."""
    return Stored.constant(np.asarray(ctx.rank(), np.int32))


@operator_reader("Size", plain=True)
def size(ctx: TensorFlowOperation) -> Item:
    """Number of elements."""
    sizes = [size for size in ctx.shape() if size is not None]
    if len(sizes) < ctx.rank():
        return Sizes(np.asarray(Open(), dtype=object))
    return Stored.constant(np.asarray(prod(sizes), np.int32))


@operator_reader("Reshape")
def reshape(ctx: TensorFlowOperation) -> Item:
    """The same elements in other sizes."""
    x, wanted = ctx.x, ctx.sizes_input(1, "the new sizes")
    if not isinstance(x, Stored):
        return layer.reshape(ctx, x, wanted)
    count, rest = prod(x.shape), prod(size for size in wanted if size not in {-1, None})
    sizes = tuple(count // max(rest, 1) if size in {-1, None} else size or 0 for size in wanted)
    if prod(sizes) != count:
        raise ctx.shape_error(f"reshapes {list(x.shape)} to {wanted}")
    return x.reshaped(sizes)


@operator_reader("Squeeze")
def squeeze(ctx: TensorFlowOperation) -> Item:
    """Without axes of size 1."""
    x, sizes = ctx.x, ctx.shape()
    ones = [axis for axis, length in enumerate(sizes) if length == 1]
    given = ctx.integer_list("squeeze_dims", ()) or ctx.integer_list("axis", ())
    gone = [ctx.axis(axis) for axis in given or ones]
    if isinstance(x, Stored):
        return x.reshaped(tuple(length for axis, length in enumerate(x.shape) if axis not in gone))
    return layer.drop(ctx, x, gone)


@operator_reader("ExpandDims")
def expand_dims(ctx: TensorFlowOperation) -> Item:
    """With one axis more."""
    x, axis = ctx.x, ctx.axis(ctx.integer_input(1, "the axis"), ctx.rank() + 1)
    if isinstance(x, Stored):
        return x.reshaped((*x.shape[:axis], 1, *x.shape[axis:]))
    return layer.widen(ctx, x, [axis])


@operator_reader("Transpose")
def transpose(ctx: TensorFlowOperation) -> Item:
    """Axes in another order."""
    x, perm = ctx.x, ctx.integers_input(1, "the order of the axes")
    if sorted(perm) != list(range(ctx.rank())):
        raise ctx.shape_error(f"axes {perm} of an input with {ctx.rank()}")
    return x.transposed(tuple(perm)) if isinstance(x, Stored) else layer.transpose(ctx, x, perm)


@operator_reader("ConcatV2", "Concat")
def concat(ctx: TensorFlowOperation) -> Tensor:
    """Joined along an axis: the last input, in the older form the first."""
    last = len(ctx.inputs) - 1
    at, operands = (last, ctx.operands(0, last)) if ctx.op == "ConcatV2" else (0, ctx.operands(1))
    return layer.concat(ctx, operands, ctx.integer_input(at, "the axis"))


@operator_reader("Pack")
def pack(ctx: TensorFlowOperation) -> Tensor:
    """Joined along a new axis."""
    axis = ctx.axis(ctx.integer("axis", 0), ctx.rank() + 1)
    return layer.concat(ctx, [layer.widen(ctx, x, [axis]) for x in ctx.operands()], axis)


@operator_reader("Unpack")
def unpack(ctx: TensorFlowOperation) -> list[Item]:
    """The entries along an axis, which goes."""
    axis = ctx.axis(ctx.integer("axis", 0))
    pieces = layer.split(ctx, ctx.x, [1] * ctx.few(ctx.size(axis)), axis)
    return [layer.drop(ctx, piece, [axis]) for piece in pieces]


@operator_reader("Split")
def split(ctx: TensorFlowOperation) -> list[Item]:
    """Equal pieces along an axis."""
    x, count, axis = ctx.operand(1), ctx.integer("num_split", 1), ctx.integer_input(0, "the axis")
    length = ctx.size(axis, x)
    if ctx.few(count) < 1 or length % count:
        raise ctx.shape_error(f"{length} elements cannot be divided into {count} equal pieces")
    return [*layer.split(ctx, x, [length // count] * count, axis)]


@operator_reader("SplitV")
def split_v(ctx: TensorFlowOperation) -> list[Item]:
    """Pieces of given sizes along an axis."""
    lengths, axis = ctx.integers_input(1, "the sizes of the pieces"), ctx.integer_input(2, "the axis")
    if -1 in lengths:
        lengths[lengths.index(-1)] = ctx.size(axis) - sum(lengths) - 1
    return [*layer.split(ctx, ctx.x, lengths, axis)]


@operator_reader("StridedSlice")
def strided_slice(ctx: TensorFlowOperation) -> Item:
    """``x[begin:end:step, ...]`` with NumPy's rules."""
    bounds = [_bounds(ctx, index, what) for index, what in ((1, "begin"), (2, "end"), (3, "the step"))]
    if len(set(map(len, bounds))) > 1:
        begins, ends, strides = map(len, bounds)
        raise ctx.read_error(
            f"slices by {begins} begins, {ends} ends and {strides} strides, expected as many of each"
        )
    return layer.index(ctx, ctx.x, strided_index(ctx.node, *bounds))


def _bounds(ctx: TensorFlowOperation, index: int, what: str) -> list[int]:
    """Return begins or ends; an open one is read only where a mask says that it does not count."""
    numbers = ctx.sizes_input(index, what)
    mask = ctx.integer({1: "begin_mask", 2: "end_mask"}.get(index, ""), 0)
    if any(number is None and not mask & (1 << place) for place, number in enumerate(numbers)):
        ctx.constant_input(index, what)
    return [number or 0 for number in numbers]


@operator_reader("Slice")
def slice_(ctx: TensorFlowOperation) -> Item:
    """``size`` elements from ``begin`` on along each axis, -1 for all that are left."""
    begins, lengths = ctx.integers_input(1, "begin"), ctx.sizes_input(2, "the size")
    if not len(begins) == len(lengths) == ctx.rank():
        raise ctx.shape_error(
            f"slices {ctx.rank()} axes by {len(begins)} begins and {len(lengths)} sizes, expected as many"
        )
    bounds = {}
    for axis, (begin, length, size) in enumerate(zip(begins, lengths, ctx.shape(), strict=True)):
        if begin or length not in {-1, size}:  # an open length is that of the axis
            bounds[axis] = (begin, FAR if length in {-1, None} else begin + (length or 0), 1)
    return layer.cut(ctx, ctx.x, bounds)


@operator_reader("Pad", "PadV2", "MirrorPad")
def pad(ctx: TensorFlowOperation) -> Tensor:
    """More elements at both ends of each axis: of one number, or mirrored."""
    pairs = _pairs(ctx.constant_input(1, "the padding"))
    if ctx.op != "MirrorPad":
        fill = float(ctx.constant_input(2, "the number").reshape(-1)[0]) if ctx.op == "PadV2" else 0.0
        return layer.pad(ctx, ctx.x, pairs, fill=fill)
    if ctx.string("mode", "REFLECT") == "SYMMETRIC":
        return _symmetric(ctx, pairs)
    return layer.pad(ctx, ctx.x, pairs, mode="reflect")


def _pairs(numbers: np.ndarray) -> list[tuple[int, int]]:
    return [(int(begin), int(end)) for begin, end in numbers.reshape(-1, 2)]


def _symmetric(ctx: TensorFlowOperation, pairs: Sequence[tuple[int, int]]) -> Tensor:
    """Return a tensor with its begin and its end mirrored, the edge standing twice."""
    x = ctx.tensor(ctx.x)
    for axis, (begin, end) in enumerate(pairs):
        pieces = [x]
        if begin:
            pieces.insert(0, layer.cut(ctx, x, {axis: (begin - 1, -FAR, -1)}))
        if end:
            pieces.append(layer.cut(ctx, x, {axis: (-1, -end - 1, -1)}))
        x = layer.concat(ctx, pieces, axis)
    return x


@operator_reader("Tile")
def tile(ctx: TensorFlowOperation) -> Tensor:
    """Several times along each axis."""
    return Tensor(ctx.add("Tile", [ctx.x, ctx.integers(ctx.integers_input(1, "how often"))]))


@operator_reader("Fill")
def fill(ctx: TensorFlowOperation) -> Tensor:
    """One number everywhere, which the net may compute."""
    x = ctx.operand(1)
    if isinstance(x, Tensor):
        return Tensor(ctx.add("Expand", [x, _shape_input(ctx, 0)]))
    number = ctx.constant_input(1, "the number").reshape(-1)[:1]
    return Tensor(ctx.add("Expand", [ctx.constant(number, dtype=number.dtype), _shape_input(ctx, 0)]))


@operator_reader("BroadcastTo")
def broadcast_to(ctx: TensorFlowOperation) -> Tensor:
    """Repeated to larger sizes."""
    return Tensor(ctx.add("Expand", [ctx.x, _shape_input(ctx, 1)]))


def _shape_input(ctx: TensorFlowOperation, index: int) -> ir.Value:
    """Return sizes as a value; those that are open are taken from the tensors that have them."""
    numbers = numbers_of(ctx.item(index))
    if numbers is None:
        raise ctx.unsupported("the sizes depend on the values of the inputs, which is not supported")
    return ctx.written(Sizes(numbers))


@operator_reader("ReverseV2")
def reverse(ctx: TensorFlowOperation) -> Tensor:
    """Backwards along some axes."""
    return layer.flip(ctx, ctx.x, ctx.integers_input(1, "the axes"))


@operator_reader("SpaceToDepth", "DepthToSpace")
def space_and_depth(ctx: TensorFlowOperation) -> Tensor:
    """Blocks of pixels as channels, or back; the place in the block counts before the channel."""
    if not ctx.is_last():
        raise ctx.unsupported("data_format=NCHW is not supported here")
    mode = "DCR" if ctx.op == "DepthToSpace" else None
    attributes = {"blocksize": ctx.integer("block_size", 2), "mode": mode}
    return Tensor(ctx.add(ctx.op, [ctx.first(ctx.x)], attributes), first=True)


@operator_reader("SpaceToBatchND", "SpaceToBatch")
def space_to_batch(ctx: TensorFlowOperation) -> Tensor:
    """Every place of a block as an example of its own; the places count before the examples."""
    blocks, pads = _blocks(ctx, "the padding")
    num, rank = len(blocks), ctx.rank()
    if not 0 < num == len(pads) < rank:
        raise ctx.shape_error(f"blocks of {blocks} and a padding of {pads} of {rank} axes")
    padded: Operand = ctx.x
    if any(map(any, pads)):
        padded = layer.pad(ctx, padded, [(0, 0), *pads, *[(0, 0)] * (rank - 1 - num)])
    sizes = ctx.sizes(range(1, rank), padded)
    if any(block < 1 or n % block for n, block in zip(sizes, blocks, strict=False)):
        raise ctx.shape_error(f"sizes {sizes} cannot be divided into blocks of {blocks}")
    outer, rest = [size // block for size, block in zip(sizes, blocks, strict=False)], sizes[num:]
    split = [n for pair in zip(outer, blocks, strict=True) for n in pair]
    places = range(1, 2 * num + 1)
    perm = [*places[1::2], 0, *places[0::2], *range(2 * num + 1, 2 * num + 1 + len(rest))]
    return _regrouped(ctx, padded, [-1, *split, *rest], perm, [-1, *outer, *rest])


def _blocks(ctx: TensorFlowOperation, what: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the sizes of blocks, and what is put around or cut off; the older form has squares."""
    if ctx.op.endswith("ND"):
        return ctx.integers_input(1, "the block"), _pairs(ctx.constant_input(2, what))
    return [ctx.integer("block_size", 1)] * 2, _pairs(ctx.constant_input(1, what))


@operator_reader("BatchToSpaceND", "BatchToSpace")
def batch_to_space(ctx: TensorFlowOperation) -> Tensor:
    """The opposite of SpaceToBatchND; ends are cut off."""
    blocks, crops = _blocks(ctx, "the crop")
    num, sizes = len(blocks), ctx.sizes(range(1, ctx.rank()))
    if len(crops) != num or num > len(sizes) or min(blocks, default=1) < 1:
        raise ctx.shape_error(f"blocks of {blocks} and crops {crops} of sizes {sizes}")
    rest = sizes[num:]
    perm = [num, *(place for i in range(num) for place in (num + 1 + i, i))]
    perm += range(2 * num + 1, 2 * num + 1 + len(rest))
    full = [size * block for size, block in zip(sizes, blocks, strict=False)]
    joined = _regrouped(ctx, ctx.x, [*blocks, -1, *sizes], perm, [-1, *full, *rest])
    rows = enumerate(zip(crops, full, strict=True), start=1)
    bounds = {axis: (begin, size - end, 1) for axis, ((begin, end), size) in rows if begin or end}
    return layer.cut(ctx, joined, bounds)


def _regrouped(
    ctx: TensorFlowOperation, x: Operand, split: Sequence[int], perm: Sequence[int], joined: Sequence[int]
) -> Tensor:
    """Return a tensor with its axes split, put in another order and joined."""
    return Tensor(ctx.reshape(ctx.transpose(ctx.reshape(x, split), perm), joined))


# gather_op.cc, one_hot_op.cc, scatter_nd_op.cc and where_op.cc.


@operator_reader("Gather", "GatherV2")
def gathered(ctx: TensorFlowOperation) -> Tensor:
    """Entries along an axis."""
    axis = ctx.integer_input(2, "the axis") if len(ctx.inputs) > 2 else 0
    if ctx.integer("batch_dims", 0):
        return _gathered_apart(ctx, axis)
    return gather(ctx, ctx.x, ctx.operand(1), axis)


def _gathered_apart(ctx: TensorFlowOperation, axis: int) -> Tensor:
    """Return entries along an axis, each example of the axes before by its own numbers."""
    x, numbers = ctx.operands(0, 2)
    batch_dims = ctx.axis(ctx.integer("batch_dims", 0), ctx.rank(numbers))
    if ctx.axis(axis) != batch_dims:
        raise ctx.unsupported(
            f"batch_dims={batch_dims} and axis={axis}: only an axis after them is supported"
        )
    places = ctx.unsqueeze(ctx.as_type(numbers, ir.DataType.INT64), [-1])
    return Tensor(ctx.add("GatherND", [x, places], {"batch_dims": batch_dims}))


@operator_reader("ResourceGather")
def resource_gather(ctx: TensorFlowOperation) -> Tensor:
    """Rows of a variable: an embedding."""
    handle = ctx.item(0)
    if not isinstance(handle, Handle):
        raise ctx.unsupported("reads rows of something that is not a variable")
    table = ctx.interpreter.variables.value(handle.name, ctx.place)
    return gather(ctx, table, ctx.operand(1), 0)


@operator_reader("GatherNd")
def gather_nd(ctx: TensorFlowOperation) -> Tensor:
    """Entries by several numbers each."""
    return Tensor(ctx.add("GatherND", [ctx.x, ctx.as_type(ctx.operand(1), ir.DataType.INT64)]))


@operator_reader("OneHot")
def one_hot(ctx: TensorFlowOperation) -> Tensor:
    """``on`` at each number, ``off`` elsewhere, along a new axis; ONNX counts those below 0 from the end."""
    depth = ctx.integer_input(1, "the depth")
    on, off = (ctx.constant_input(index, what).reshape(-1)[0] for index, what in ((2, "on"), (3, "off")))
    values = ctx.constant(np.asarray([off, on]), dtype=np.asarray(on).dtype)
    numbers = ctx.as_type(ctx.x, ir.DataType.INT64)
    below = ctx.add("Less", [numbers, ctx.scalar(0, numbers)])
    within = ctx.add("Where", [below, ctx.scalar(depth, numbers), numbers])
    inputs = [within, ctx.integers([depth]), values]
    return Tensor(ctx.add("OneHot", inputs, {"axis": ctx.integer("axis", -1)}))


@operator_reader("ReverseSequence")
def reverse_sequence(ctx: TensorFlowOperation) -> Tensor:
    """Each example backwards as far as it goes, what lies behind staying there."""
    time_axis, batch_axis = (ctx.axis(ctx.integer(name, 0)) for name in ("seq_dim", "batch_dim"))
    if sorted([time_axis, batch_axis]) != [0, 1]:
        raise ctx.unsupported(f"seq_dim={time_axis}, batch_dim={batch_axis} is not supported")
    lengths = ctx.as_type(ctx.operand(1), ir.DataType.INT64)
    attributes = {"time_axis": time_axis, "batch_axis": batch_axis}
    return Tensor(ctx.add("ReverseSequence", [ctx.x, lengths], attributes))


REDUCTIONS = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterSub": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
}
"""What becomes of an element that is written to, as ONNX calls it."""


@operator_reader("ScatterNd")
def scatter_nd(ctx: TensorFlowOperation) -> Tensor:
    """Zeros of a size that is given, with entries added to them."""
    places, updates = ctx.operands(0, 2)
    sizes = ctx.integers(ctx.integers_input(2, "the sizes"))
    zeros = ctx.add("Expand", [ctx.scalar(0, updates), sizes])
    inputs: list[Operand] = [zeros, ctx.as_type(places, ir.DataType.INT64), updates]
    return Tensor(ctx.add("ScatterND", inputs, {"reduction": "add"}))


@operator_reader(*REDUCTIONS)
def tensor_scatter(ctx: TensorFlowOperation) -> Tensor:
    """A tensor with entries written to it, or joined with what is there."""
    x, places, updates = ctx.operands(0, 3)
    if ctx.op == "TensorScatterSub":
        updates = ctx.unary("Neg", updates)
    inputs: list[Operand] = [x, ctx.as_type(places, ir.DataType.INT64), updates]
    return Tensor(ctx.add("ScatterND", inputs, {"reduction": REDUCTIONS[ctx.op]}))


@operator_reader("Where")
def where(ctx: TensorFlowOperation) -> Tensor:
    """The places of what is not zero, a row for each; how many there are, only the numbers say."""
    return Tensor(ctx.transpose(ctx.add("NonZero", [ctx.x]), [1, 0]))


@operator_reader("MatrixBandPart")
def band(ctx: TensorFlowOperation) -> Tensor:
    """Matrices with zeros outside of a band; a negative width leaves its side as it is."""
    value = ctx.source(ctx.x)
    for index, upper in ((1, 1), (2, 0)):
        width = ctx.integer_input(index, "the width of the band")
        if width >= 0:
            edge = ctx.constant(-width if upper else width, dtype=np.int64)
            value = ctx.add("Trilu", [value, edge], {"upper": upper})
    return Tensor(value)
