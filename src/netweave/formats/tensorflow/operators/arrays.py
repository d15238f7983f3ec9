"""Arrays of tensors, as loops of TensorFlow 1 fill and read them (tensor_array_ops.cc).

Every operator is given the array's ``flow`` and gives it on; here the flow is the list of tensors itself,
and the handle says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import concat, drop, split, widen
from netweave.formats.tensorflow.operands import Handle, TensorList
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@operator_reader("TensorArrayV3", plain=True)
def tensor_array(call: Call) -> list[Item]:
    """An array of which nothing is set yet."""
    count = call.few(call.integer(0, "the length of the array"))
    return [Handle(call.node.name), TensorList((None,) * count)]


@operator_reader("TensorArraySizeV3", plain=True)
def size(call: Call) -> Item:
    """How many tensors there is room for."""
    return Stored.constant(np.asarray(len(_flow(call, 1)), np.int32))


@operator_reader("TensorArrayReadV3", plain=True)
def read(call: Call) -> Item:
    """One tensor."""
    return _set(call, _flow(call, 2), call.integers(1, "the place in the array"))[0]


@operator_reader("TensorArrayWriteV3", plain=True)
def write(call: Call) -> Item:
    """The array with one tensor more."""
    return _with(call, 3, call.integers(1, "the place in the array"), [call.operand(2)])


@operator_reader("TensorArrayScatterV3")
def scatter(call: Call) -> Item:
    """The array with the entries of a tensor along its first axis, at the places that are named."""
    places = call.integers(1, "the places in the array")
    return _with(call, 3, places, _entries(call, 2, [1] * call.few(len(places)), drops=True))


@operator_reader("TensorArraySplitV3")
def split_array(call: Call) -> Item:
    """The array with pieces of a tensor along its first axis."""
    lengths = call.integers(2, "the lengths of the pieces")
    call.few(len(lengths))
    return _with(call, 3, list(range(len(lengths))), _entries(call, 1, lengths, drops=False))


@operator_reader("TensorArrayGatherV3")
def gather(call: Call) -> Item:
    """Some tensors along a new first axis."""
    rows = _set(call, _flow(call, 2), call.integers(1, "the places in the array"))
    return concat(call.writer, [widen(call.writer, row, [0]) for row in rows], 0)


@operator_reader("TensorArrayConcatV3")
def join(call: Call) -> list[Item]:
    """All tensors after one another along their first axis, and how long each is there."""
    flow = _flow(call, 1)
    rows = _set(call, flow, range(len(flow)))
    lengths = [call.writer.known(row, [0])[0] for row in rows]
    return [concat(call.writer, rows, 0), Stored.constant(np.asarray(lengths, np.int64))]


@operator_reader("TensorArrayCloseV3", plain=True)
def close(call: Call) -> list[Item]:
    """Nothing."""
    return []


def _flow(call: Call, index: int) -> tuple[Tensor | Stored | None, ...]:
    item = call.item(index)
    if not isinstance(item, TensorList):
        raise call.refuse("reads an array of tensors that is none")
    return item.items


def _set(call: Call, flow: Sequence[Tensor | Stored | None], places: Sequence[int]) -> list[Tensor | Stored]:
    found = [flow[place] if 0 <= place < len(flow) else None for place in places]
    rows = [item for item in found if item is not None]
    if not rows or len(rows) < len(found):
        raise call.refuse(f"reads an entry of an array of {len(flow)} tensors that is not set")
    return rows


def _with(call: Call, index: int, places: Sequence[int], values: Sequence[Tensor | Stored]) -> TensorList:
    items = list(_flow(call, index))
    for place, value in zip(places, values, strict=True):
        if not 0 <= place < call.few(max(place, 0) + 1):
            raise call.refuse(f"sets entry {place} of an array")
        items += [None] * (place + 1 - len(items))
        items[place] = value
    return TensorList(tuple(items))


def _entries(call: Call, index: int, lengths: Sequence[int], *, drops: bool) -> list[Tensor]:
    pieces = split(call.writer, call.operand(index), lengths, 0)
    return [drop(call.writer, piece, [0]) for piece in pieces] if drops else pieces
