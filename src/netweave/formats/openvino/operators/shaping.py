"""Operators that move elements, reduce axes, and compute sizes."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor, layer
from netweave.formats.openvino.constants import DTYPES
from netweave.formats.openvino.context import OpenVINOOperation, constant_of, operator_reader
from netweave.formats.openvino.operators.elementwise import renamed


@operator_reader("ShapeOf")
def shape_of(ctx: OpenVINOOperation) -> Operand:
    """The sizes of a tensor."""
    sizes = [size for size in ctx.shape() if size is not None]
    dtype = DTYPES.get(ctx.text("output_type", "i64"), DTYPES["i64"])
    if len(sizes) == ctx.rank():
        return Stored.constant(np.asarray(sizes, dtype))
    value = Tensor(ctx.add("Shape", [ctx.x]))
    return value if dtype == np.int64 else ctx.as_type(value, ir.DataType.from_numpy(dtype))


@operator_reader("Reshape")
def reshape(ctx: OpenVINOOperation) -> Operand:
    """The same elements in other sizes; with ``special_zero`` 0 keeps a size."""
    x, wanted = ctx.x, constant_of(ctx.operand(1))
    keeps = ctx.flag("special_zero")
    if wanted is None:
        sizes = ctx.as_type(ctx.operand(1), ir.DataType.INT64)
        return Tensor(ctx.add("Reshape", [x, sizes], None if keeps else {"allowzero": 1}))
    numbers = ctx.integers_input(1, "the new sizes")
    array = constant_of(x)
    if array is not None and isinstance(x, Stored):
        return x.reshaped(_known_sizes(ctx, array, numbers, keeps=keeps))
    attributes = {"allowzero": 1} if 0 in numbers and not keeps else None
    return Tensor(ctx.add("Reshape", [x, ctx.integers(numbers)], attributes))


def _known_sizes(
    ctx: OpenVINOOperation, array: np.ndarray, numbers: Sequence[int], *, keeps: bool
) -> tuple[int, ...]:
    if keeps:
        numbers = [array.shape[i] if n == 0 and i < array.ndim else n for i, n in enumerate(numbers)]
    try:
        return tuple(array.reshape(numbers).shape)
    except ValueError as error:
        raise ctx.shape_error(f"reshapes {list(array.shape)} to {numbers}") from error


@operator_reader("Squeeze", "Unsqueeze")
def squeeze(ctx: OpenVINOOperation) -> Operand:
    """Without axes of size 1, or with more of them."""
    x, rank = ctx.x, ctx.rank()
    given = ctx.integers_input(1, "the axes") if len(ctx.inputs) > 1 else []
    if ctx.op == "Unsqueeze":
        total = rank + len(given)
        places = sorted(ctx.axis(axis, total) for axis in given)
        if not isinstance(x, Stored):
            return layer.widen(ctx, x, places)
        sizes = iter(x.shape)
        return x.reshaped(tuple(1 if axis in places else next(sizes) for axis in range(total)))
    gone = [ctx.axis(axis) for axis in given] or [axis for axis, size in enumerate(ctx.shape()) if size == 1]
    if isinstance(x, Stored):
        return x.reshaped(tuple(size for axis, size in enumerate(x.shape) if axis not in gone))
    return layer.drop(ctx, x, gone)


@operator_reader("Transpose")
def transpose(ctx: OpenVINOOperation) -> Operand:
    """Axes in another order; all in reverse where it is empty."""
    x, rank = ctx.x, ctx.rank()
    perm = ctx.integers_input(1, "the order of the axes") or [*range(rank)][::-1]
    if sorted(perm) != list(range(rank)):
        raise ctx.shape_error(f"axes {perm} of an input with {rank}")
    return x.transposed(tuple(perm)) if isinstance(x, Stored) else layer.transpose(ctx, x, perm)


@operator_reader("Concat")
def concat(ctx: OpenVINOOperation) -> Operand:
    """Joined along an axis; sizes that are known at once."""
    axis, arrays = ctx.integer("axis"), [constant_of(x) for x in ctx.inputs]
    known = [array for array in arrays if array is not None]
    if known and len(known) == len(arrays):
        try:
            return renamed([*ctx.inputs], np.concatenate(known, axis))
        except ValueError as error:
            raise ctx.shape_error(f"joins {[array.shape for array in known]} on axis {axis}") from error
    return layer.concat(ctx, ctx.inputs, axis)


@operator_reader("Split")
def split(ctx: OpenVINOOperation) -> list[Operand]:
    """Equal pieces along an axis."""
    count, axis = ctx.integer("num_splits"), ctx.integer_input(1, "the axis")
    length = ctx.size(axis)
    if count < 1 or length % count:
        raise ctx.shape_error(f"{length} elements cannot be divided into {count} equal pieces")
    if count > len(ctx.source_layer.outputs):
        raise ctx.read_error(f"num_splits={count} with {len(ctx.source_layer.outputs)} outputs")
    return [*layer.split(ctx, ctx.x, [length // count] * count, axis)]


@operator_reader("VariadicSplit")
def variadic_split(ctx: OpenVINOOperation) -> list[Operand]:
    """Pieces of given sizes along an axis; -1 for what is left."""
    axis, lengths = ctx.integer_input(1, "the axis"), ctx.integers_input(2, "the sizes of the pieces")
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = ctx.size(axis) - sum(lengths) - 1
    return [*layer.split(ctx, ctx.x, lengths, axis)]


PADDINGS = {"constant": "constant", "edge": "edge", "reflect": "reflect"}
"""Modes of Pad, and ONNX's names; symmetric ones are mirrored with their edge, which ONNX does not have."""


@operator_reader("Pad")
def pad(ctx: OpenVINOOperation) -> Tensor:
    """More elements at both ends of each axis."""
    begins, ends = (ctx.integers_input(index, "the padding") for index in (1, 2))
    mode = ctx.choice("pad_mode", tuple(PADDINGS), "constant")
    if len(begins) != ctx.rank() or len(ends) != ctx.rank():
        raise ctx.shape_error(f"pads {len(begins)} and {len(ends)} of {ctx.rank()} axes")
    fill = ctx.number_input(3, "the number") if len(ctx.inputs) > 3 and mode == "constant" else 0.0
    return layer.pad(ctx, ctx.x, [*zip(begins, ends, strict=True)], mode=PADDINGS[mode], fill=fill)


@operator_reader("StridedSlice")
def strided_slice(ctx: OpenVINOOperation) -> Operand:
    """``x[begin:end:step, ...]`` with NumPy's rules; a mask of 1 says that a bound does not count."""
    begins, ends = ctx.integers_input(1, "begin"), ctx.integers_input(2, "end")
    steps = ctx.integers_input(3, "the step") if len(ctx.inputs) > 3 else [1] * len(begins)
    if not len(begins) == len(ends) == len(steps):
        raise ctx.read_error(
            f"has {len(begins)} begins, {len(ends)} ends and {len(steps)} steps, expected as many of each"
        )
    masks = {
        name: ctx.integer_list(f"{name}_mask")
        for name in ("begin", "end", "new_axis", "shrink_axis", "ellipsis")
    }
    items: list[int | slice | EllipsisType | None] = []
    for place, (begin, end, step) in enumerate(zip(begins, ends, steps, strict=True)):
        said = {name for name, mask in masks.items() if place < len(mask) and mask[place]}
        if "ellipsis" in said:
            items.append(...)
        elif "new_axis" in said:
            items.append(None)
        elif "shrink_axis" in said:
            items.append(begin)
        else:
            items.append(slice(None if "begin" in said else begin, None if "end" in said else end, step or 1))
    array = constant_of(ctx.x)
    if array is None:
        return layer.index(ctx, ctx.x, items)
    try:
        return renamed([ctx.x], np.asarray(array[tuple(items)]))
    except IndexError as error:
        raise ctx.shape_error(f"takes a part of {list(array.shape)} that it does not have") from error


@operator_reader("Slice")
def slice_(ctx: OpenVINOOperation) -> Tensor:
    """A range along some axes; all of them where none are named."""
    names = ("begin", "end", "the step", "the axes")
    lists = [ctx.integers_input(i, name) for i, name in enumerate(names, 1) if i < len(ctx.inputs)]
    places = lists[3] if len(lists) > 3 else [*range(len(lists[0]))]
    if len(lists) < 3 or any(len(row) != len(places) for row in lists):
        raise ctx.read_error("has other numbers of begins, ends, steps and axes")
    bounds = {ctx.axis(axis): row for axis, row in zip(places, zip(*lists[:3], strict=True), strict=True)}
    return layer.cut(ctx, ctx.x, bounds)


@operator_reader("Gather")
def gather(ctx: OpenVINOOperation) -> Operand:
    """Entries along an axis by their numbers."""
    axis, batch = ctx.axis(ctx.integer_input(2, "the axis")), ctx.integer("batch_dims", 0)
    numbers, array = constant_of(ctx.operand(1)), constant_of(ctx.x)
    if array is not None and numbers is not None and numbers.size <= array.size and not batch:
        try:
            return renamed([ctx.x], np.take(array, numbers.astype(np.int64), axis))
        except IndexError as error:
            raise ctx.shape_error(
                f"takes an entry of axis {axis} of {list(array.shape)} beyond its end"
            ) from error
    if not batch:
        return layer.gather(ctx, ctx.x, ctx.operand(1), axis)
    if ctx.axis(batch, ctx.rank(ctx.operand(1))) != axis:
        raise ctx.unsupported(f"batch_dims={batch} and axis={axis}: only an axis after them is supported")
    places = ctx.unsqueeze(ctx.as_type(ctx.operand(1), ir.DataType.INT64), [-1])
    return Tensor(ctx.add("GatherND", [ctx.x, places], {"batch_dims": axis}))


@operator_reader("GatherElements")
def gather_elements(ctx: OpenVINOOperation) -> Tensor:
    """An entry for each number, along an axis."""
    return Tensor(ctx.add("GatherElements", [ctx.x, ctx.operand(1)], {"axis": ctx.integer("axis")}))


@operator_reader("GatherND")
def gather_nd(ctx: OpenVINOOperation) -> Tensor:
    """Entries by several numbers each."""
    places = ctx.as_type(ctx.operand(1), ir.DataType.INT64)
    return Tensor(ctx.add("GatherND", [ctx.x, places], {"batch_dims": ctx.integer("batch_dims", 0)}))


@operator_reader("ScatterNDUpdate", "ScatterElementsUpdate")
def scatter(ctx: OpenVINOOperation) -> Tensor:
    """A tensor with entries written to it."""
    ctx.choice("reduction", ("none",), "none")
    x, places, updates = (ctx.operand(index) for index in range(3))
    numbers = ctx.as_type(places, ir.DataType.INT64)
    if ctx.op == "ScatterNDUpdate":
        return Tensor(ctx.add("ScatterND", [x, numbers, updates]))
    return Tensor(
        ctx.add("ScatterElements", [x, numbers, updates], {"axis": ctx.integer_input(3, "the axis")})
    )


@operator_reader("Broadcast")
def broadcast(ctx: OpenVINOOperation) -> Tensor:
    """Repeated to larger sizes, as NumPy does."""
    ctx.choice("mode", ("numpy", "bidirectional"), "numpy")
    return Tensor(ctx.add("Expand", [ctx.x, ctx.as_type(ctx.operand(1), ir.DataType.INT64)]))


@operator_reader("Tile")
def tile(ctx: OpenVINOOperation) -> Tensor:
    """Several times along each axis; axes that are not named, at the front, once."""
    repeats = ctx.integers_input(1, "how often")
    rank = ctx.rank()
    if len(repeats) > rank:
        widened = ctx.unsqueeze(ctx.x, [*range(len(repeats) - rank)])
        return Tensor(ctx.add("Tile", [widened, ctx.integers(repeats)]))
    return Tensor(ctx.add("Tile", [ctx.x, ctx.integers([1] * (rank - len(repeats)) + repeats)]))


REDUCTIONS = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum")


@operator_reader(*REDUCTIONS)
def reduce(ctx: OpenVINOOperation) -> Operand:
    """Over some axes."""
    over = ctx.integers_input(1, "the axes")
    return layer.reduce(ctx, ctx.op, ctx.x, over, keep=ctx.flag("keep_dims")) if over else ctx.x


@operator_reader("ReduceLogicalAnd", "ReduceLogicalOr")
def reduce_logical(ctx: OpenVINOOperation) -> Tensor:
    """Return whether all or any hold, over some axes; ONNX reduces no truth values."""
    op_type = "ReduceMin" if ctx.op.endswith("And") else "ReduceMax"
    numbers = ctx.as_type(ctx.x, ir.DataType.INT32)
    over = ctx.integers_input(1, "the axes")
    return ctx.as_type(
        layer.reduce(ctx, op_type, numbers, over, keep=ctx.flag("keep_dims")), ir.DataType.BOOL
    )


@operator_reader("TopK")
def top_k(ctx: OpenVINOOperation) -> list[Operand]:
    """The largest or smallest elements along an axis, and their numbers."""
    sort = ctx.choice("sort", ("value", "none"), "value")
    attributes = {
        "axis": ctx.integer("axis"),
        "largest": int(ctx.choice("mode", ("max", "min"), "max") == "max"),
        "sorted": int(sort == "value"),
    }
    inputs = [ctx.source(ctx.x), ctx.integers(ctx.integers_input(1, "k"))]
    values, numbers = ctx.add_many("TopK", inputs, attributes, outputs=2)
    kind = DTYPES.get(ctx.text("index_element_type", "i32"), DTYPES["i32"])
    return [Tensor(values), ctx.as_type(numbers, ir.DataType.from_numpy(kind))]


@operator_reader("CumSum")
def cumsum(ctx: OpenVINOOperation) -> Tensor:
    """Sums along an axis, step by step."""
    attributes = {name: int(ctx.flag(name)) for name in ("exclusive", "reverse")}
    axis = ctx.constant(ctx.integer_input(1, "the axis"), dtype=np.int64)
    return Tensor(ctx.add("CumSum", [ctx.x, axis], attributes))


@operator_reader("Einsum")
def einsum(ctx: OpenVINOOperation) -> Tensor:
    """A sum over named axes."""
    return Tensor(ctx.add("Einsum", ctx.inputs, {"equation": str(ctx.setting("equation", ""))}))


@operator_reader("OneHot")
def one_hot(ctx: OpenVINOOperation) -> Tensor:
    """``on`` at each number, ``off`` elsewhere, along a new axis."""
    depth, on, off = (ctx.known(index, what) for index, what in ((1, "the depth"), (2, "on"), (3, "off")))
    values = np.asarray([off.reshape(-1)[0], on.reshape(-1)[0]], on.dtype)
    inputs = [ctx.x, ctx.integers([int(depth.reshape(-1)[0])]), ctx.array(values)]
    return Tensor(ctx.add("OneHot", inputs, {"axis": ctx.integer("axis", -1)}))


@operator_reader("Range")
def range_(ctx: OpenVINOOperation) -> Tensor:
    """Numbers from a begin on, in steps, before an end."""
    return Tensor(ctx.add("Range", ctx.inputs[:3]))
