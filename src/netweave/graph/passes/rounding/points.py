"""The places of a graph where numbers are rounded: pairs of nodes, there and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph.passes.rounding.formats import FLOATS, Quantiser
from netweave.graph.passes.rounding.walk import array_of

if TYPE_CHECKING:
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True, eq=False)
class RoundingPoint:
    """A place where numbers are rounded.

    Attributes:
        there: The node that rounds: a QuantizeLinear, a DynamicQuantizeLinear or a Cast.
        backs: The nodes that bring what it returns back to float32.
        dtype: What it rounds to.
        quantiser: How integers are made; None for floating-point formats and for ranges found at run time.
        read_as: How they are read back, which should be the same.
    """

    there: ir.Node
    backs: tuple[ir.Node, ...]
    dtype: ir.DataType
    quantiser: Quantiser | None = None
    read_as: Quantiser | None = None

    @property
    def value(self) -> ir.Value:
        """The value that is rounded."""
        value = self.there.inputs[0]
        assert value is not None
        return value


def rounding_points(graph: Graph) -> list[RoundingPoint]:
    """Return the places where a graph with explicit rounding rounds, in topological order."""
    points = []
    for node in graph.nodes:
        point = _point(node) if node.domain == "" else None
        if point is not None:
            points.append(point)
    return points


def _point(node: ir.Node) -> RoundingPoint | None:
    made = node.outputs[0]
    backs = tuple(dict.fromkeys(reader for reader, _ in made.uses()))
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes["to"].as_int())
        return RoundingPoint(node, backs, dtype) if dtype in FLOATS and backs else None
    if node.op_type == "DynamicQuantizeLinear":
        backs = tuple(back for back in backs if back.op_type == "DequantizeLinear")
        return RoundingPoint(node, backs, ir.DataType.UINT8)
    if node.op_type != "QuantizeLinear" or not backs:
        return None
    dtype = made.dtype or ir.DataType.UINT8
    return RoundingPoint(node, backs, dtype, _quantiser(node, dtype), _quantiser(backs[0], dtype))


def _quantiser(node: ir.Node, dtype: ir.DataType) -> Quantiser | None:
    scale, zero = (array_of(value) for value in node.inputs[1:3])
    if scale is None or zero is None:
        return None
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    rank = len(node.inputs[0].shape or ()) if node.inputs[0] is not None else 0
    return Quantiser(dtype, scale, zero.astype("int64"), axis % rank if rank else max(axis, 0), block)
