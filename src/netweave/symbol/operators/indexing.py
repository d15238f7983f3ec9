"""Operators that choose elements: slices, lookups, choices (matrix_op-inl.h, indexing_op.h, crop-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.symbol.registry import operator_reader
from netweave.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.symbol.call import Call
    from netweave.symbol.settings import Settings

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@operator_reader("slice", "crop")
def cut(call: Call) -> ir.Value:
    """From ``begin`` to ``end`` by ``step`` along the first axes; None is an open end."""
    begin, end = call.settings.bounds("begin"), call.settings.bounds("end")
    step = [s or 1 for s in call.settings.bounds("step", ())] or [1] * len(begin)
    if not len(begin) == len(end) == len(step):
        raise call.wrong(f"begin {begin}, end {end} and step {step} are not equally long")
    starts = [(0 if s > 0 else LARGEST) if b is None else b for b, s in zip(begin, step, strict=True)]
    ends = [(LARGEST if s > 0 else SMALLEST) if e is None else e for e, s in zip(end, step, strict=True)]
    return _slice(call, call.value(), starts, ends, range(len(begin)), step)


@operator_reader("slice_axis")
def slice_axis(call: Call) -> ir.Value:
    """From ``begin`` to ``end`` along one axis."""
    settings = call.settings
    begin, axis, end = settings.whole("begin"), settings.whole("axis"), settings.whole("end", None)
    return _slice(call, call.value(), [begin], [LARGEST if end is None else end], [axis])


@operator_reader("slice_like", arguments=("data", "shape_like"))
def slice_like(call: Call) -> ir.Value:
    """To the sizes of the second input, along all or the given axes."""
    x, like = call.value("data"), call.value("shape_like")
    rank = len(call.shape(x))
    axes = [call.axis(axis, rank) for axis in call.settings.sizes("axes", ())] or list(range(rank))
    sizes = call.add("Gather", [call.add("Shape", [like]), call.whole_numbers(axes)])
    return call.add("Slice", [x, call.whole_numbers([0] * len(axes)), sizes, call.whole_numbers(axes)])


def _crop_arguments(settings: Settings) -> Sequence[str]:
    return ("data", "crop_like") if settings.count("num_args") == 2 else ("data",)


@operator_reader("Crop", arguments=_crop_arguments, counted=True)
def crop(call: Call) -> ir.Value:
    """Height and width cut to ``h_w`` or to those of a second input, at ``offset`` or in the centre."""
    settings = call.settings
    offset, wanted = settings.per_axis("offset", 2, 0), settings.per_axis("h_w", 2, 0)
    centre = settings.flag("center_crop", False)
    x = call.value("data")
    if not call.has("crop_like"):
        sizes = list(wanted)
    elif centre or None not in call.shape(call.value("crop_like"))[2:]:
        sizes = call.known_sizes(call.value("crop_like"), (2, 3))
    else:
        return _crop_to_open_size(call, x, offset)
    if centre:
        whole = call.known_sizes(x, (2, 3))
        offset = tuple((has - size) // 2 for has, size in zip(whole, sizes, strict=True))
    ends = [begin + size for begin, size in zip(offset, sizes, strict=True)]
    return _slice(call, x, offset, ends, (2, 3))


def _crop_to_open_size(call: Call, x: ir.Value, offset: Sequence[int]) -> ir.Value:
    sizes = call.add("Shape", [call.value("crop_like")], {"start": 2, "end": 4})
    begin = call.whole_numbers(offset)
    return call.add("Slice", [x, begin, call.add("Add", [begin, sizes]), call.whole_numbers([2, 3])])


@operator_reader("Embedding", arguments=("data", "weight"))
def embedding(call: Call) -> ir.Value:
    """Rows of a table; numbers beyond its ends take the first or last row."""
    settings = call.settings
    rows, columns = settings.count("input_dim"), settings.count("output_dim")
    settings.skip("dtype", "sparse_grad")
    places = _places(call, call.value("data"), rows, "clip")
    return call.add("Gather", [call.parameter("weight", (rows, columns)), places], {"axis": 0})


@operator_reader("take", arguments=("a", "indices"))
def take(call: Call) -> ir.Value:
    """Slices of the first input at the places in the second."""
    axis = call.settings.whole("axis", 0)
    mode = call.settings.choice("mode", ("clip", "wrap", "raise"), "clip")
    a = call.value("a")
    axis = call.axis(axis, len(call.shape(a)))
    places = _places(call, call.value("indices"), _size(call, a, axis), mode)
    return call.add("Gather", [a, places], {"axis": axis})


@operator_reader("pick", "choose_element_0index", arguments=("data", "index"))
def pick(call: Call) -> ir.Value:
    """One element along an axis for each place of the others."""
    settings = call.settings
    mode = settings.choice("mode", ("clip", "wrap"), "clip")
    keep = settings.flag("keepdims", False)
    x = call.value("data")
    shape = call.shape(x)
    axis = call.axis(settings.whole("axis", -1), len(shape))
    index = call.value("index", default=(*shape[:axis], *shape[axis + 1 :]))
    places = _places(call, index, _size(call, x, axis), mode)
    if len(call.shape(index)) < len(shape):
        places = call.add("Unsqueeze", [places, call.whole_numbers([axis])])
    found = call.add("GatherElements", [x, places], {"axis": axis})
    return found if keep else call.add("Squeeze", [found, call.whole_numbers([axis])])


@operator_reader("batch_take", arguments=("a", "indices"))
def batch_take(call: Call) -> ir.Value:
    """One element of each row."""
    a = call.value("a")
    indices = call.value("indices", default=call.shape(a)[:1])
    places = _places(call, indices, _size(call, a, 1), "clip")
    column = call.add("Unsqueeze", [places, call.whole_numbers([1])])
    found = call.add("GatherElements", [a, column], {"axis": 1})
    return call.add("Squeeze", [found, call.whole_numbers([1])])


@operator_reader("gather_nd", arguments=("data", "indices"))
def gather_nd(call: Call) -> ir.Value:
    """Elements or slices at places whose coordinates stand along axis 0."""
    indices = call.add("Cast", [call.value("indices")], {"to": ir.DataType.INT64})
    rank = len(call.shape(indices))
    last = call.add("Transpose", [indices], {"perm": [*range(1, rank), 0]})
    return call.add("GatherND", [call.value("data"), last])


@operator_reader("one_hot", arguments=("indices",))
def one_hot(call: Call) -> ir.Value:
    """``on_value`` at the place of each number, ``off_value`` elsewhere; nothing outside the depth."""
    settings = call.settings
    depth = settings.count("depth")
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    indices = call.add("Cast", [call.value()], {"to": ir.DataType.INT64})
    column = call.add("Unsqueeze", [indices, call.whole_numbers([-1])])
    hit = call.add("Equal", [column, call.array(call.arange(depth))])
    values = [
        np.asarray(settings.number(f"{name}_value", default), dtype.numpy())
        for name, default in (("on", 1.0), ("off", 0.0))
    ]
    return call.add("Where", [hit, *map(call.array, values)])


@operator_reader("where", arguments=("condition", "x", "y"))
def where(call: Call) -> ir.Value:
    """Elements of one or the other input; a condition of one axis chooses rows."""
    x, y = call.value("x"), call.value("y")
    rank = len(call.shape(x))
    condition = call.add("Cast", [call.value("condition", default=call.shape(x))], {"to": ir.DataType.BOOL})
    if len(call.shape(condition)) == 1 < rank:
        condition = call.add("Unsqueeze", [condition, call.whole_numbers(range(1, rank))])
    return call.add("Where", [condition, x, y])


def _slice(
    call: Call,
    x: ir.Value,
    starts: Sequence[int],
    ends: Sequence[int],
    axes: Sequence[int],
    steps: Sequence[int] | None = None,
) -> ir.Value:
    lists = [starts, ends, axes, steps or [1] * len(axes)]
    return call.add("Slice", [x, *map(call.whole_numbers, lists)])


def _size(call: Call, x: ir.Value, axis: int) -> int | ir.Value:
    """Return a size of a value; where it is open, as a number that the net computes."""
    size = call.size(x, axis)
    return call.add("Gather", [call.add("Shape", [x]), _number(call, axis)]) if size is None else size


def _places(call: Call, indices: ir.Value, size: int | ir.Value, mode: str) -> ir.Value:
    """Return numbers as places along an axis of the given size."""
    whole = call.add("Cast", [indices], {"to": ir.DataType.INT64})
    if mode == "raise":
        return whole
    if mode == "wrap":
        return call.add("Mod", [whole, _number(call, size) if isinstance(size, int) else size])
    last = _number(call, size - 1) if isinstance(size, int) else call.add("Sub", [size, _number(call, 1)])
    return call.add("Clip", [whole, _number(call, 0), last])


def _number(call: Call, number: int) -> ir.Value:
    return call.array(np.asarray(number, np.int64))
