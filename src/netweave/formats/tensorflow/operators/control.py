"""Conditions, loops and functions: a branch that a known condition does not take is not read.

TensorFlow 1 sends a tensor through ``Switch`` to one of two branches, which meet in ``Merge``; TensorFlow 2
calls a function (``If``, ``While``, ``PartitionedCall``); its loops are made one node by ``frames``. A
condition that is an input of the net without a value, as ``is_training`` is, counts as False.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Stored
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.context import MAX_PIECES
from netweave.formats.tensorflow.frames import FRAME, Frame
from netweave.formats.tensorflow.operands import Dead, constant_of
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item


@operator_reader("Switch", "RefSwitch", plain=True)
def switch(ctx: TensorFlowOperation) -> list[Item]:
    """The first output if the condition is False, the second one if it is True."""
    item = ctx.item(0)
    taken = _condition(ctx, 1)
    return [Dead(), item] if taken else [item, Dead()]


@operator_reader("Merge", "RefMerge", plain=True)
def merge(ctx: TensorFlowOperation) -> list[Item]:
    """The input whose branch is taken, and its number."""
    alive = [(number, item) for number, item in enumerate(ctx.inputs) if not isinstance(item, Dead)]
    if not alive:
        return [Dead(), Dead()]
    number, item = alive[0]
    return [item, Stored.constant(np.asarray(number, np.int32))]


@operator_reader("PartitionedCall", "StatefulPartitionedCall", plain=True)
def partitioned_call(ctx: TensorFlowOperation) -> list[Item]:
    """A function of the net."""
    return ctx.run(_function(ctx, "f"), ctx.inputs)


@operator_reader("If", "StatelessIf", plain=True)
def condition(ctx: TensorFlowOperation) -> list[Item]:
    """One of two functions."""
    name = "then_branch" if _condition(ctx, 0) else "else_branch"
    return ctx.run(_function(ctx, name), ctx.inputs[1:])


@operator_reader("While", "StatelessWhile", plain=True)
def loop(ctx: TensorFlowOperation) -> list[Item]:
    """A function again and again, written out; how often must be known while the net is read."""
    condition, body = _function(ctx, "cond"), _function(ctx, "body")
    return _repeated(
        ctx, ctx.inputs, lambda state: ctx.run(condition, state), lambda state: ctx.run(body, state)
    )


@operator_reader("LoopCond", plain=True)
def frame(ctx: TensorFlowOperation) -> list[Item]:
    """A loop of TensorFlow 1 (``frames``): its values come first, then what is the same in all iterations."""
    loop = ctx.attribute(FRAME)
    if not isinstance(loop, Frame):
        raise ctx.unsupported("a loop that was not made by tf.while_loop is not supported")
    count = len(loop.merges)
    within = ctx.interpreter.within
    same = {name: [item] for name, item in zip(loop.constants, ctx.inputs[count:], strict=True)}

    def begun(state: Sequence[Item]) -> dict[str, list[Item]]:
        return same | {name: [item] for name, item in zip(loop.merges, state, strict=True)}

    def condition(state: Sequence[Item]) -> list[Item]:
        return within(begun(state), [loop.condition])

    def body(state: Sequence[Item]) -> list[Item]:
        pairs = zip(loop.switches, state, strict=True)
        taken = {name: [Dead(), item] for names, item in pairs for name in names}
        return within({**begun(state), **taken}, loop.following)

    return _repeated(ctx, ctx.inputs[:count], condition, body)


def _repeated(
    ctx: TensorFlowOperation,
    begin: Sequence[Item],
    condition: Callable[[Sequence[Item]], list[Item]],
    body: Callable[[Sequence[Item]], list[Item]],
) -> list[Item]:
    """Return what a loop leaves, written out iteration by iteration."""
    state = list(begin)
    for _ in range(MAX_PIECES):
        ctx.interpreter.spend(1, ctx.place)
        held = condition(state)
        number = constant_of(held[0]) if held else None
        if number is None:
            raise ctx.unsupported(
                "the number of iterations is unknown; set the sizes of the net's inputs, with the length of "
                "the sequence, as in --input-shape tokens=1x20; a loop whose end depends on values, such as "
                "that of dynamic_rnn with a sequence_length, is not supported"
            )
        if not bool(number.reshape(-1)[0]):
            return state
        state = body(state)
    raise ctx.unsupported(f"the loop runs more than {MAX_PIECES:,} times")


def _condition(ctx: TensorFlowOperation, index: int) -> bool:
    value = constant_of(ctx.item(index))
    if value is None or value.size != 1:
        raise ctx.unsupported(
            "its condition depends on the values of the inputs, which is not supported; expected a "
            "constant condition"
        )
    return bool(value.reshape(-1)[0])


def _function(ctx: TensorFlowOperation, name: str) -> str:
    value = ctx.attribute(name)
    if not isinstance(value, Function):
        raise ctx.unsupported(f"its {name!r} is not the name of a function")
    return value.name
