"""Lists of tensors, as loops fill and read them (tensor_array_ops.cc, list_kernels.cc).

TensorFlow 2 has lists that operators take and give on. TensorFlow 1 has arrays: every operator is given the
array's ``flow``, its last input, and gives it on; here the flow is the list of tensors itself, and the handle
says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Stored, Tensor
from netweave.formats.lowering.channels_last.axes import concat, split
from netweave.formats.tensorflow.operands import Handle, TensorList
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item


@operator_reader("TensorArrayV3", "TensorListReserve", "EmptyTensorList", plain=True)
def new(ctx: TensorFlowOperation) -> list[Item]:
    """A list of tensors that are not set yet."""
    if ctx.op == "EmptyTensorList":
        return [TensorList(())]
    is_array = ctx.op == "TensorArrayV3"
    count = ctx.few(ctx.integer_input(0 if is_array else 1, "the length of the list"))
    empty = TensorList((None,) * count)
    return [Handle(ctx.node.name), empty] if is_array else [empty]


@operator_reader("TensorArraySizeV3", "TensorListLength", plain=True)
def length(ctx: TensorFlowOperation) -> Item:
    """Return the capacity, as a number of tensors."""
    return Stored.constant(np.asarray(len(_items(ctx)), np.int32))


@operator_reader("TensorArrayReadV3", "TensorListGetItem", plain=True)
def get(ctx: TensorFlowOperation) -> Item:
    """One tensor."""
    return _entries(ctx, ctx.integers_input(1, "the place in the list"))[0]


@operator_reader("TensorArrayWriteV3", "TensorListSetItem", plain=True)
def put(ctx: TensorFlowOperation) -> Item:
    """The list with another tensor at one place."""
    return _with(ctx, ctx.integers_input(1, "the place in the list"), [ctx.operand(2)])


@operator_reader("TensorListPushBack", plain=True)
def push_back(ctx: TensorFlowOperation) -> Item:
    """The list with one more tensor."""
    return TensorList((*_items(ctx), ctx.operand(1)))


@operator_reader("TensorListFromTensor")
def from_tensor(ctx: TensorFlowOperation) -> Item:
    """The entries of a tensor along its first axis."""
    return TensorList(tuple(_unstacked(ctx, ctx.x, ctx.size(0))))


@operator_reader("TensorArrayScatterV3")
def scatter(ctx: TensorFlowOperation) -> Item:
    """The array with the entries of a tensor along its first axis, at the places that are named."""
    places = ctx.integers_input(1, "the places in the array")
    return _with(ctx, places, _unstacked(ctx, ctx.operand(2), len(places)))


@operator_reader("TensorArraySplitV3")
def split_array(ctx: TensorFlowOperation) -> Item:
    """The array with pieces of a tensor along its first axis."""
    lengths = ctx.integers_input(2, "the lengths of the pieces")
    places = range(ctx.few(len(lengths)))
    return _with(ctx, places, split(ctx, ctx.operand(1), lengths, 0))


@operator_reader("TensorArrayGatherV3", "TensorListStack")
def stack(ctx: TensorFlowOperation) -> Item:
    """All tensors, or some of an array, along a new first axis."""
    is_array = ctx.op == "TensorArrayGatherV3"
    places = ctx.integers_input(1, "the places in the array") if is_array else range(len(_items(ctx)))
    new_axis = ctx.integers([0])
    return concat(ctx, [ctx.add("Unsqueeze", [item, new_axis]) for item in _entries(ctx, places)], 0)


@operator_reader("TensorArrayConcatV3")
def join(ctx: TensorFlowOperation) -> list[Item]:
    """All tensors after one another along their first axis, and how long each is there."""
    items = _entries(ctx, range(len(_items(ctx))))
    lengths = [ctx.size(0, item) for item in items]
    return [concat(ctx, items, 0), Stored.constant(np.asarray(lengths, np.int64))]


@operator_reader("TensorArrayCloseV3", plain=True)
def close(ctx: TensorFlowOperation) -> list[Item]:
    """Nothing."""
    return []


def _items(ctx: TensorFlowOperation) -> tuple[Tensor | Stored | None, ...]:
    item = ctx.item(0 if ctx.op.startswith("TensorList") else -1)
    if not isinstance(item, TensorList):
        raise ctx.unsupported("reads something that is not a list of tensors")
    return item.items


def _entries(ctx: TensorFlowOperation, places: Sequence[int]) -> list[Tensor | Stored]:
    items = _items(ctx)
    chosen = [items[place] if 0 <= place < len(items) else None for place in places]
    entries = [item for item in chosen if item is not None]
    if not entries or len(entries) < len(chosen):
        raise ctx.unsupported(f"reads an entry of a list of {len(items)} tensors that is not set")
    return entries


def _with(ctx: TensorFlowOperation, places: Sequence[int], values: Sequence[Tensor | Stored]) -> TensorList:
    items = list(_items(ctx))
    for place, value in zip(places, values, strict=True):
        if not 0 <= place < ctx.few(max(place, 0) + 1):
            raise ctx.unsupported(f"sets entry {place} of a list")
        items += [None] * (place + 1 - len(items))
        items[place] = value
    return TensorList(tuple(items))


def _unstacked(ctx: TensorFlowOperation, x: Tensor | Stored, count: int) -> list[Tensor]:
    rows, axis = split(ctx, x, [1] * ctx.few(count), 0), ctx.integers([0])
    return [Tensor(ctx.add("Squeeze", [row, axis])) for row in rows]
