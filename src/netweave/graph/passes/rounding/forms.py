"""One form for pairs of QuantizeLinear and DequantizeLinear: none repeated, all integers unsigned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader
from netweave.graph.passes.rounding.layers import MOVING, array_of, input_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


ONE_TO_ONE = MOVING - {"Concat", "Split"}
"""Operators that move the values of one tensor into one other."""


@Pass
def drop_idle_roundings(graph: Graph) -> None:
    """Let each pair of QuantizeLinear and DequantizeLinear stand behind nodes that move values, and but once.

    ONNX Runtime's optimiser quantises before a MaxPool as well as behind it. The largest of rounded values is
    the largest value rounded, and to round a second time by the same scale changes nothing.
    """
    rewriter = Rewriter(graph)
    for there, back in list(_idle_roundings(graph)):
        source = there.inputs[0]
        if source is not None:
            rewriter.bypass(back, source)
            if not there.outputs[0].uses():
                graph.model.graph.remove(there, safe=True)
    for node in list(graph.nodes):
        pair = _pair_before(node.outputs[0])
        while pair is not None and (moving := _moving_reader(pair[1])) is not None:
            _move_before(moving, *pair, rewriter)


def _move_before(moving: ir.Node, there: ir.Node, back: ir.Node, rewriter: Rewriter) -> None:
    """Let a node move what is rounded behind it instead of what was rounded before it."""
    moved, rounded = moving.outputs[0], back.outputs[0]
    moving.replace_input_with(0, there.inputs[0])
    rewriter.take_over(moved, rounded)
    there.replace_input_with(0, moved)
    there.outputs[0].shape = moved.shape
    inner = rewriter.graph.model.graph
    inner.remove(moving)
    inner.insert_before(there, moving)


def _moving_reader(back: ir.Node) -> ir.Node | None:
    """Return the node that alone reads rounded values and moves them by stored settings."""
    value = back.outputs[0]
    reader = next((node for node, _ in value.uses()), None) if has_one_reader(value) else None
    if reader is None or reader.domain or reader.op_type not in ONE_TO_ONE or reader.inputs[0] is not value:
        return None
    settings = [setting for setting in reader.inputs[1:] if setting is not None]
    is_stored = all(setting.const_value is not None for setting in settings)
    return reader if is_stored and not any(made.uses() for made in reader.outputs[1:]) else None


def num_idle_roundings(graph: Graph) -> int:
    """Return how many pairs ``drop_idle_roundings`` would drop."""
    return sum(1 for _ in _idle_roundings(graph))


def _idle_roundings(graph: Graph) -> Iterator[tuple[ir.Node, ir.Node]]:
    for node in graph.nodes:
        if (node.domain, node.op_type) != ("", "QuantizeLinear"):
            continue
        value = node.inputs[0]
        while value is not None and has_one_reader(value):
            maker = value.producer()
            if maker is None or maker.domain or maker.op_type not in ONE_TO_ONE:
                break
            value = maker.inputs[0]
        pair = _pair_before(value) if value is not None and has_one_reader(value) else None
        if pair is not None and _is_same_scale(node, pair[0]):
            yield pair


def _pair_before(value: ir.Value) -> tuple[ir.Node, ir.Node] | None:
    """Return the QuantizeLinear and DequantizeLinear that rounded a value, if both have one scale."""
    back = value.producer()
    source = back.inputs[0] if back is not None and back.op_type == "DequantizeLinear" else None
    there = source.producer() if source is not None else None
    if back is None or there is None or there.op_type != "QuantizeLinear" or not _is_same_scale(there, back):
        return None
    return there, back


def _is_same_scale(node: ir.Node, other: ir.Node) -> bool:
    """Return whether two nodes round by one stored scale and zero point for all values."""
    if node.attributes.get_int("block_size", 0) or other.attributes.get_int("block_size", 0):
        return False
    for index in (1, 2):
        array, array_of_other = (array_of(input_at(each, index)) for each in (node, other))
        if array is None or array_of_other is None:
            if index == 1 or input_at(node, index) is not None or input_at(other, index) is not None:
                return False
        elif array.size != 1 or array.dtype != array_of_other.dtype or (array != array_of_other).any():
            return False
    return True


@Pass
def unsigned_roundings(graph: Graph) -> None:
    """Let each pair that rounds to int8 round to uint8: 128 is added to its integers and its zero point.

    OpenVINO's FakeQuantize does not say which of them it rounds to.
    """
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if not _is_signed(node):
            continue
        zero = array_of(node.inputs[2])
        assert zero is not None
        unsigned = rewriter.initializer(
            ir.Tensor((zero.astype(np.int16) + 128).astype(np.uint8)), "zero_point"
        )
        for each in (node, *(reader for reader, _ in node.outputs[0].uses())):
            each.replace_input_with(2, unsigned)
        node.outputs[0].type = ir.TensorType(ir.DataType.UINT8)


def num_signed_roundings(graph: Graph) -> int:
    """Return how many pairs ``unsigned_roundings`` would change."""
    return sum(map(_is_signed, graph.nodes))


def _is_signed(node: ir.Node) -> bool:
    """Return whether a node rounds to int8, for nodes alone that read it back by the same zero point."""
    zero = array_of(input_at(node, 2)) if node.op_type == "QuantizeLinear" and not node.domain else None
    if zero is None or zero.dtype != np.int8 or node.outputs[0].is_graph_output():
        return False
    for reader, index in node.outputs[0].uses():
        own = array_of(input_at(reader, 2)) if reader.op_type == "DequantizeLinear" and not index else None
        if own is None or not np.array_equal(own, zero):
            return False
    return True
