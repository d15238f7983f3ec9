"""Caffe's recurrent loops: T steps, N sequences, H hidden units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.onnx.functions.table import Call, body
from netweave.formats.onnx.functions.tape import Tensor, call, loop

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("CaffeLSTM")
def lstm(node: Call) -> Sequence[Tensor]:
    """Gates i, f, o, g; ``cont`` cuts both states off where a sequence begins."""
    outside, cont, weight, *states = node.inputs
    columns = call("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor, c: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = call("Gather", cont, number).at(1)
        gates = call("Gather", outside, number) + call("MatMul", goes_on * h, columns)
        i, f, o, g = gates.split(4, axis=1)
        c = goes_on * call("Sigmoid", f) * c + call("Sigmoid", i) * call("Tanh", g)
        h = call("Sigmoid", o) * call("Tanh", c)
        return None, [h, c], [h]

    h, c, found = loop(call("Squeeze", outside.size(0)), None, _first(node, states, 2), step)
    return [found, h.at(0), c.at(0)]


@body("CaffeRNN")
def rnn(node: Call) -> Sequence[Tensor]:
    """The hidden states, and the last one."""
    outside, cont, weight, *states = node.inputs
    columns = call("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = call("Gather", cont, number).at(1)
        h = call("Tanh", call("Gather", outside, number) + call("MatMul", goes_on * h, columns))
        return None, [h], [h]

    h, found = loop(call("Squeeze", outside.size(0)), None, _first(node, states, 1), step)
    return [found, h.at(0)]


def _first(node: Call, states: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return the states before the first step, (N, H); zeros where none are given."""
    if states:
        return [call("Squeeze", state, [0]) for state in states]
    outside, _, weight = node.inputs
    zeros = call("Expand", 0.0, call("Concat", outside.size(1), weight.size(1), axis=0))
    return [zeros] * count
