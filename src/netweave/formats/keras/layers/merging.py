"""Layers on several tensors (keras/layers/merging), and the functions of ``keras.ops`` that do the same."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import concat
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.channels_last import Operand
    from netweave.formats.keras.call import Call

MERGES = {
    "Add": "Add",
    "Divide": "Div",
    "Maximum": "Max",
    "Minimum": "Min",
    "Multiply": "Mul",
    "Subtract": "Sub",
    "TrueDivide": "Div",
}
"""Layers and functions on tensors that are broadcast, and ONNX's name."""


@layer_reader(*MERGES)
def merge(call: Call) -> Tensor:
    """Of all inputs, one after another; a function may be given numbers as well."""
    operands = _operands([*call.args, *call.kwargs.values()])
    op_type = MERGES[call.layer.type]
    if len(operands) < 2:
        raise call.refuse(f"is given {len(operands)} tensors or numbers, expected at least 2")
    made = reduce(lambda a, b: broadcast(call.writer, op_type, [a, b]), operands)
    assert isinstance(made, Tensor)
    return made


@layer_reader("Average")
def average(call: Call) -> Tensor:
    """The mean of all inputs."""
    return broadcast(call.writer, "Mean", list(call.inputs))


@layer_reader("Concatenate")
def concatenate(call: Call) -> Tensor:
    """Joined along an axis, the last by default."""
    made = concat(call.writer, call.inputs, call.whole("axis", -1))
    return made if len(call.inputs) > 1 else unary(call.writer, "Identity", call.x)


def _operands(values: Sequence[Any]) -> list[Operand]:
    """Return the tensors and numbers of a call, which may stand in lists."""
    found: list[Operand] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _operands(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            found.append(Stored.constant(np.asarray(value, np.float32)))
    return found
