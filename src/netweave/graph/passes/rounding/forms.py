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


@Pass
def drop_idle_roundings(graph: Graph) -> None:
    """Drop each pair of QuantizeLinear and DequantizeLinear that is repeated behind nodes that move values.

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
            if maker is None or maker.domain or maker.op_type not in MOVING - {"Concat", "Split"}:
                break
            value = maker.inputs[0]
        back = value.producer() if value is not None and has_one_reader(value) else None
        if back is None or back.op_type != "DequantizeLinear" or value is None:
            continue
        there = back.inputs[0].producer() if back.inputs[0] is not None else None
        if there is None or there.op_type != "QuantizeLinear":
            continue
        if _is_same_scale(node, there) and _is_same_scale(node, back):
            yield there, back


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
