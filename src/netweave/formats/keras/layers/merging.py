"""Layers on several tensors (keras/layers/merging), and the functions of ``keras.ops`` that do the same."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import concat
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.layers.normalization import unit_length
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
    "Power": "Pow",
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
    mask = _common_mask(call)
    made = reduce(lambda a, b: broadcast(call.writer, op_type, [a, b]), operands)
    assert isinstance(made, Tensor)
    return call.masked(made, mask)


@layer_reader("Average")
def average(call: Call) -> Tensor:
    """The mean of all inputs."""
    mask = _common_mask(call)
    return call.masked(broadcast(call.writer, "Mean", list(call.inputs)), mask)


@layer_reader("Concatenate")
def concatenate(call: Call) -> Tensor:
    """Joined along an axis, the last by default."""
    mask = _common_mask(call)
    made = concat(call.writer, call.inputs, call.whole("axis", -1))
    return call.masked(made if len(call.inputs) > 1 else unary(call.writer, "Identity", call.x), mask)


@layer_reader("Dot")
def dot(call: Call) -> Tensor:
    """Products over an axis of each of two tensors, example by example; of unit vectors if it says so."""
    axes = call.setting("axes")
    pair = [axes, axes] if isinstance(axes, int) else axes
    whole = isinstance(pair, list) and all(isinstance(axis, int) for axis in pair)
    if not isinstance(pair, list) or not whole or len(pair) != 2 or len(call.inputs) != 2:
        raise call.wrong(f"axes={axes!r:.40} for {len(call.inputs)} tensors, expected two of each")
    writer, rows = call.writer, []
    for x, axis, last in zip(call.inputs, pair, (True, False), strict=True):
        rank = len(call.shape(x))
        at = writer.axis(axis, rank)
        if rank not in {2, 3} or not at:
            raise call.refuse(
                f"axes={axes!r:.40} of {rank} axes: only those of vectors and matrices are read"
            )
        x = unit_length(call, x, [at]) if call.flag("normalize", False) else x
        value = writer.source(x)
        if rank == 2:
            value = writer.add("Unsqueeze", [value, writer.integers([1 if last else 2])])
        elif (at == 1) == last:
            value = writer.add("Transpose", [value], {"perm": [0, 2, 1]})
        rows.append(value)
    made = writer.add("MatMul", rows)
    flat = [number + 1 for number, x in enumerate(call.inputs) if len(call.shape(x)) == 2]
    if len(flat) == 2:
        return Tensor(writer.add("Squeeze", [made, writer.integers([2])]))
    return Tensor(writer.add("Squeeze", [made, writer.integers(flat)]) if flat else made)


def _common_mask(call: Call) -> Tensor | None:
    """Return the mask of all inputs; None where one has none, whose steps all count."""
    masks = [call.mask(x) for x in call.inputs]
    found = [mask for mask in masks if mask is not None]
    if len({id(mask.value) for mask in found}) > 1:
        raise call.refuse("joins tensors with different masks, which is not read")
    return found[0] if found and len(found) == len(masks) else None


def _operands(values: Sequence[Any]) -> list[Operand]:
    """Return the tensors and numbers of a call, which may stand in lists."""
    found: list[Operand] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _operands(value)
        elif isinstance(value, (int, float, np.ndarray)) and not isinstance(value, bool):
            found.append(Stored.constant(np.asarray(value, np.float32)))
    return found
