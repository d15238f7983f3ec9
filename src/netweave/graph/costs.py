"""What a node costs: multiply-adds and bytes of activations; parameters are counted by layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from netweave.graph.shapes import known_shape

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a node, a layer or a net.

    Attributes:
        multiply_adds: Multiplications followed by an addition, for the given batch.
        activation_bytes: Bytes of the outputs, for the given batch.
        exact: False if a size was unknown, so that the numbers are lower bounds.
    """

    multiply_adds: int = 0
    activation_bytes: int = 0
    exact: bool = True

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds,
            self.activation_bytes + other.activation_bytes,
            self.exact and other.exact,
        )


def node_cost(node: ir.Node, *, batch: int = 1) -> Cost:
    """Return the costs of one node.

    Multiply-adds are counted for convolutions and matrix products, as is usual; the rest is free.

    Args:
        node: The node, with shapes inferred.
        batch: Stands for a symbolic first size, >= 1.
    """
    shapes = [_sizes(value, batch) for value in node.outputs]
    exact = all(shape is not None for shape in shapes)
    num_bytes = sum(
        prod(shape) * (value.dtype.itemsize if value.dtype else 4)
        for value, shape in zip(node.outputs, shapes, strict=True)
        if shape is not None
    )
    out = shapes[0] if shapes else None
    if node.domain or out is None:
        return Cost(0, int(num_bytes), exact)
    return Cost(_multiply_adds(node, out, batch), int(num_bytes), exact)


def layer_costs(graph: Graph, *, batch: int = 1) -> dict[str, Cost]:
    """Return the costs of each layer by key; a node of several layers counts for its first."""
    costs = dict.fromkeys(graph.layers, Cost())
    for node in graph.nodes:
        owners = graph.layers_of(node)
        if owners:
            costs[owners[0].key] += node_cost(node, batch=batch)
    return costs


def total_cost(graph: Graph, *, batch: int = 1) -> Cost:
    """Return the costs of the whole net."""
    return sum((node_cost(node, batch=batch) for node in graph.nodes), Cost())


def _sizes(value: ir.Value | None, batch: int) -> tuple[int, ...] | None:
    shape = known_shape(value)
    if shape is None or any(size is None for size in shape[1:]):
        return None
    return tuple(batch if size is None else size for size in shape)


def _multiply_adds(node: ir.Node, out: tuple[int, ...], batch: int) -> int:
    weight = known_shape(node.inputs[1]) if len(node.inputs) > 1 else None
    if node.op_type in {"Conv", "ConvTranspose"} and weight and None not in weight:
        filter_size = prod(size for size in weight[1:] if size is not None)
        if node.op_type == "Conv":
            return prod(out) * filter_size
        data = _sizes(node.inputs[0], batch)
        return prod(data) * filter_size if data else 0
    if node.op_type in {"Gemm", "MatMul"}:
        data = _sizes(node.inputs[0], batch)
        transposed = node.op_type == "Gemm" and _flag(node, "transA")
        return prod(out) * data[0 if transposed else -1] if data else 0
    return 0


def _flag(node: ir.Node, name: str) -> bool:
    attribute = node.attributes.get(name)
    return bool(attribute.as_int()) if attribute is not None else False
