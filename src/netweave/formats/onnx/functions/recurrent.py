"""Caffe's recurrent loops: T steps, N sequences, H hidden units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.onnx.functions.table import FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, loop, op

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("CaffeLSTM")
def lstm(node: FunctionNode) -> Sequence[Tensor]:
    """Gates i, f, o, g; ``cont`` cuts both states off where a sequence begins."""
    outside, cont, weight, *states = node.inputs
    columns = op("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor, c: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = op("Gather", cont, number).at(1)
        gates = op("Gather", outside, number) + op("MatMul", goes_on * h, columns)
        i, f, o, g = gates.split(4, axis=1)
        c = goes_on * op("Sigmoid", f) * c + op("Sigmoid", i) * op("Tanh", g)
        h = op("Sigmoid", o) * op("Tanh", c)
        return None, [h, c], [h]

    h, c, found = loop(op("Squeeze", outside.size(0)), None, _first(node, states, 2), step)
    return [found, h.at(0), c.at(0)]


@body("CaffeRNN")
def rnn(node: FunctionNode) -> Sequence[Tensor]:
    """The hidden states, and the last one."""
    outside, cont, weight, *states = node.inputs
    columns = op("Transpose", weight, perm=[1, 0])

    def step(number: Tensor, h: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        goes_on = op("Gather", cont, number).at(1)
        h = op("Tanh", op("Gather", outside, number) + op("MatMul", goes_on * h, columns))
        return None, [h], [h]

    h, found = loop(op("Squeeze", outside.size(0)), None, _first(node, states, 1), step)
    return [found, h.at(0)]


def _first(node: FunctionNode, states: Sequence[Tensor], count: int) -> list[Tensor]:
    """Return the states before the first step, (N, H); zeros where none are given."""
    if states:
        return [op("Squeeze", state, [0]) for state in states]
    outside, _, weight = node.inputs
    zeros = op("Expand", 0.0, op("Concat", outside.size(1), weight.size(1), axis=0))
    return [zeros] * count
