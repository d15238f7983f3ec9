"""Views by strides, which exporters write as choosing elements one by one.

PyTorch keeps images with channels last in memory and writes ``as_strided`` where it makes the order of memory
explicit: all elements in one row, and a table of their numbers to take them by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import attributes_of
from netweave.graph.passes.views import OpenSizes

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph.passes.rewrite import Rewriter

_STEPS = {"Add": np.add, "Mul": np.multiply}


def take_strided(rewriter: Rewriter, node: ir.Node) -> None:
    """Remove a Gather from all elements of a value in one row that gives the value as it was."""
    row = node.inputs[0].producer() if node.inputs[0] is not None else None
    if row is None or row.domain or row.op_type != "Reshape" or attributes_of(node).get("axis", 0):
        return
    value, table = row.inputs[0], node.inputs[1]
    if value is None or table is None or value.shape is None or value.shape != node.outputs[0].shape:
        return
    sizes = OpenSizes()
    shape = sizes.shape(value)
    numbers = _numbers(table, sizes)
    if shape is None or numbers is None or numbers.shape != shape or len(row.outputs[0].shape or ()) != 1:
        return
    if np.array_equal(numbers, np.arange(numbers.size).reshape(shape)):
        rewriter.bypass(node, value)


def _numbers(value: ir.Value, sizes: OpenSizes) -> np.ndarray | None:
    """Return a table of whole numbers that is computed from sizes alone; None for other values."""
    if value.const_value is not None:
        return value.const_value.numpy()
    node = value.producer()
    if node is None or node.domain or node.inputs[0] is None:
        return None
    if node.op_type == "Range":
        start, step = (_stored(node, at) for at in (0, 2))
        shape = sizes.shape(value)
        return None if start is None or step is None or shape is None else start + step * np.arange(shape[0])
    if node.op_type == "Unsqueeze":
        inner, axes = _numbers(node.inputs[0], sizes), _stored(node, 1)
        return None if inner is None or axes is None else np.expand_dims(inner, tuple(map(int, axes)))
    step_of = _STEPS.get(node.op_type)
    operands = [_numbers(each, sizes) for each in node.inputs if each is not None] if step_of else []
    known = [operand for operand in operands if operand is not None]
    return np.asarray(step_of(*known)) if step_of is not None and len(known) == 2 else None


def _stored(node: ir.Node, at: int) -> np.ndarray | None:
    value = node.inputs[at]
    return None if value is None or value.const_value is None else value.const_value.numpy()
