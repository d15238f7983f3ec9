"""Conditions, loops and functions: a branch that a known condition does not take is not read.

TensorFlow 1 sends a tensor through ``Switch`` to one of two branches, which meet in ``Merge``; TensorFlow 2
calls a function (``If``, ``While``, ``PartitionedCall``); its loops are made one node by ``frames``. A
condition that is an input of the net without a value, as ``is_training`` is, counts as False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored, Tensor
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.call import MAX_PIECES
from netweave.formats.tensorflow.frames import FRAME, Frame
from netweave.formats.tensorflow.operands import Dead, TensorList, constant_of
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@operator_reader("Switch", "RefSwitch", plain=True)
def switch(call: Call) -> list[Item]:
    """The first output if the condition is False, the second one if it is True."""
    item = call.item(0)
    taken = _condition(call, 1)
    return [Dead(), item] if taken else [item, Dead()]


@operator_reader("Merge", "RefMerge", plain=True)
def merge(call: Call) -> list[Item]:
    """The input whose branch is taken, and its number."""
    alive = [(number, item) for number, item in enumerate(call.inputs) if not isinstance(item, Dead)]
    if not alive:
        return [Dead(), Dead()]
    number, item = alive[0]
    return [item, Stored.constant(np.asarray(number, np.int32))]


@operator_reader("PartitionedCall", "StatefulPartitionedCall", plain=True)
def partitioned_call(call: Call) -> list[Item]:
    """A function of the net."""
    return call.run(_function(call, "f"), call.inputs)


@operator_reader("If", "StatelessIf", plain=True)
def condition(call: Call) -> list[Item]:
    """One of two functions."""
    name = "then_branch" if _condition(call, 0) else "else_branch"
    return call.run(_function(call, name), call.inputs[1:])


@operator_reader("While", "StatelessWhile", plain=True)
def loop(call: Call) -> list[Item]:
    """A function again and again, written out; how often must be known while the net is read."""
    condition, body = _function(call, "cond"), _function(call, "body")
    return _repeated(
        call, call.inputs, lambda state: call.run(condition, state), lambda state: call.run(body, state)
    )


@operator_reader("LoopCond", plain=True)
def frame(call: Call) -> list[Item]:
    """A loop of TensorFlow 1 (``frames``): its values come first, then what is the same in all iterations."""
    found = call.attribute(FRAME)
    if not isinstance(found, Frame):
        raise call.refuse("a loop that has not the form of tf.while_loop is not read")
    count = len(found.merges)
    within = call.interpreter.within
    same = {name: [item] for name, item in zip(found.constants, call.inputs[count:], strict=True)}

    def begun(state: Sequence[Item]) -> dict[str, list[Item]]:
        return same | {name: [item] for name, item in zip(found.merges, state, strict=True)}

    def condition(state: Sequence[Item]) -> list[Item]:
        return within(begun(state), [found.condition])

    def body(state: Sequence[Item]) -> list[Item]:
        pairs = zip(found.switches, state, strict=True)
        taken = {name: [Dead(), item] for names, item in pairs for name in names}
        return within({**begun(state), **taken}, found.following)

    return _repeated(call, call.inputs[:count], condition, body)


def _repeated(
    call: Call,
    begin: Sequence[Item],
    condition: Callable[[Sequence[Item]], list[Item]],
    body: Callable[[Sequence[Item]], list[Item]],
) -> list[Item]:
    """Return what a loop leaves, written out iteration by iteration."""
    state = list(begin)
    for _ in range(MAX_PIECES):
        call.interpreter.spend(1, call.place)
        held = condition(state)
        number = constant_of(held[0]) if held else None
        if number is None:
            raise call.refuse(
                "how often the loop runs is not known while the net is read; give the sizes of the net's "
                "inputs, the length of its sequence included, as in --input-shape tokens=1x20; a loop whose "
                "end depends on values, as that of dynamic_rnn with a sequence_length does, is not read"
            )
        if not bool(number.reshape(-1)[0]):
            return state
        state = body(state)
    raise call.refuse(f"the loop runs more than {MAX_PIECES:,} times")


@operator_reader("TensorListReserve", plain=True)
def reserve(call: Call) -> Item:
    """A list of tensors that are not set yet."""
    return TensorList((None,) * call.few(call.integer(1, "the length of the list")))


@operator_reader("EmptyTensorList", plain=True)
def empty_list(call: Call) -> Item:
    """A list without tensors."""
    return TensorList(())


@operator_reader("TensorListFromTensor")
def from_tensor(call: Call) -> Item:
    """The entries of a tensor along its first axis."""
    x = call.operand(0)
    (count,) = call.writer.known(x, [0])
    value = call.writer.source(x)
    if call.few(count) == 1:
        pieces = [value]
    else:
        sizes = call.writer.integers([1] * count)
        pieces = list(call.writer.add_many("Split", [value, sizes], {"axis": 0}, num_outputs=count))
    axes = call.writer.integers([0])
    return TensorList(tuple(Tensor(call.writer.add("Squeeze", [piece, axes])) for piece in pieces))


@operator_reader("TensorListGetItem", plain=True)
def get_item(call: Call) -> Item:
    """One tensor of a list."""
    items, number = _list(call), call.integer(1, "the place in the list")
    found = items[number] if 0 <= number < len(items) else None
    if found is None:
        raise call.refuse(f"reads entry {number} of a list of {len(items)}, which is not set")
    return found


@operator_reader("TensorListSetItem", plain=True)
def set_item(call: Call) -> Item:
    """The list with another tensor at one place."""
    items, number = list(_list(call)), call.integer(1, "the place in the list")
    if not 0 <= number < call.few(max(number, 0) + 1):
        raise call.refuse(f"sets entry {number} of a list")
    items += [None] * (number + 1 - len(items))
    items[number] = call.operand(2)
    return TensorList(tuple(items))


@operator_reader("TensorListPushBack", plain=True)
def push_back(call: Call) -> Item:
    """The list with one more tensor."""
    return TensorList((*_list(call), call.operand(1)))


@operator_reader("TensorListLength", plain=True)
def length(call: Call) -> Item:
    """How many tensors a list holds."""
    return Stored.constant(np.asarray(len(_list(call)), np.int32))


@operator_reader("TensorListStack")
def stack(call: Call) -> Item:
    """All tensors of a list along a new first axis."""
    items = _list(call)
    if not items or any(item is None for item in items):
        raise call.refuse("joins a list of tensors of which some are not set")
    axes = call.writer.integers([0])
    rows = [
        call.writer.add("Unsqueeze", [call.writer.source(item), axes]) for item in items if item is not None
    ]
    return Tensor(call.writer.add("Concat", rows, {"axis": 0}) if len(rows) > 1 else rows[0])


def _list(call: Call) -> tuple[Tensor | Stored | None, ...]:
    item = call.item(0)
    if not isinstance(item, TensorList):
        raise call.refuse("reads a list of tensors that is none")
    return item.items


def _condition(call: Call, index: int) -> bool:
    found = constant_of(call.item(index))
    if found is None or found.size != 1:
        raise call.refuse(
            "the condition is computed while the net runs; only one that is known when it is read is taken"
        )
    return bool(found.reshape(-1)[0])


def _function(call: Call, name: str) -> str:
    value = call.attribute(name)
    if not isinstance(value, Function):
        raise call.refuse(f"its {name!r} names no function")
    return value.name
