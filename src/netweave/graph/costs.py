"""What nodes and layers cost: parameters, multiply-adds, bytes of activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

from netweave.graph.layers import layer_keys
from netweave.graph.opset import BATCH
from netweave.graph.parameters import parameter_key

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph.graph import Graph


@dataclass(frozen=True, slots=True)
class Cost:
    """Costs of a node, a layer or a net.

    Attributes:
        multiply_adds: Multiplications followed by an addition, for the given batch.
        activation_bytes: Bytes of the outputs, for the given batch.
        parameters: Stored elements, whatever the batch.
        exact: False if a size was unknown, so that the numbers but for the parameters are lower bounds.
        has_open_parameters: Whether the size of a stored array is unknown, so that their number is a lower
            bound.
    """

    multiply_adds: int = 0
    activation_bytes: int = 0
    parameters: int = 0
    exact: bool = True
    has_open_parameters: bool = False

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.multiply_adds + other.multiply_adds,
            self.activation_bytes + other.activation_bytes,
            self.parameters + other.parameters,
            self.exact and other.exact,
            self.has_open_parameters or other.has_open_parameters,
        )


def node_cost(node: ir.Node, *, batch: int = 1) -> Cost:
    """Return the costs of one node.

    Multiply-adds are counted for convolutions, matrix products and recurrent cells, as is usual; biases,
    activations, normalisation and pooling are free. Parameters are the stored arrays that it reads.

    Args:
        node: The node, with shapes inferred.
        batch: Stands for the symbol of the batch, >= 1.
    """
    return _node_cost(node, partial(sizes_of, batch=batch))


def node_costs(graph: Graph, *, batch: int = 1) -> list[Cost]:
    """Return the costs of a graph's nodes, in order; each shape is looked at once.

    Args:
        graph: The graph, with shapes inferred.
        batch: Stands for the symbol of the batch, >= 1.
    """
    known: dict[int, _Sizes] = {id(None): None}

    def sizes(value: ir.Value | None) -> _Sizes:
        # nodes that are alike share the shape of their outputs (``shapes.infer_node``)
        key = id(value.shape if value is not None else None)
        if key not in known:
            known[key] = sizes_of(value, batch)
        return known[key]

    return [_node_cost(node, sizes) for node in graph.nodes]


def _node_cost(node: ir.Node, sizes: Callable[[ir.Value | None], _Sizes]) -> Cost:
    outputs = [sizes(value) for value in node.outputs]
    multiply_adds, exact = 0, None not in outputs
    count = _MULTIPLY_ADDS.get(node.op_type)
    if count and node.domain == "":
        try:
            multiply_adds = count(node, [sizes(value) for value in node.inputs], outputs)
        except _UnknownSizeError:
            exact = False
    num_bytes, parameters, seen = 0, 0, set()
    for made, size in zip(node.outputs, outputs, strict=True):
        num_bytes += _num_bytes(made, size)
    for value in node.inputs:
        if value is not None and parameter_key(value) is not None and value not in seen:
            seen.add(value)
            parameters += _product(sizes(value))
    return Cost(multiply_adds, num_bytes, parameters, exact)


def layer_costs(graph: Graph, *, batch: int = 1, of_nodes: Sequence[Cost] | None = None) -> dict[str, Cost]:
    """Return the costs of each layer by key.

    Parameters are counted as the source counts them, at each layer that names them; a node of several
    layers counts for its first.

    Args:
        graph: The graph.
        batch: Stands for a symbolic batch size, >= 1.
        of_nodes: The costs of its nodes, if they are known.
    """
    sizes = {key: parameter.size for key, parameter in graph.parameters.items()}
    of_open = {key for key, parameter in graph.parameters.items() if parameter.open_axes}
    of_layer: dict[str, list[int]] = {key: [0, 0, True] for key in graph.layers}
    for node, cost in zip(graph.nodes, of_nodes or node_costs(graph, batch=batch), strict=True):
        for key in layer_keys(node):
            if key in of_layer:
                own = of_layer[key]
                own[0] += cost.multiply_adds
                own[1] += cost.activation_bytes
                own[2] &= cost.exact
                break
    costs = {}
    for key, layer in graph.layers.items():
        multiply_adds, num_bytes, exact = of_layer[key]
        stored = sum(map(sizes.__getitem__, filter(sizes.__contains__, layer.parameters)))
        is_open = not of_open.isdisjoint(layer.parameters)
        costs[key] = Cost(multiply_adds, num_bytes, stored, bool(exact), is_open)
    return costs


def sum_of(costs: Sequence[Cost]) -> Cost:
    """Return several costs together; to add them one by one makes an object for each."""
    return Cost(
        sum(cost.multiply_adds for cost in costs),
        sum(cost.activation_bytes for cost in costs),
        sum(cost.parameters for cost in costs),
        all(cost.exact for cost in costs),
        any(cost.has_open_parameters for cost in costs),
    )


def total_cost(graph: Graph, *, batch: int = 1) -> Cost:
    """Return the costs of the whole net; a shared parameter counts once."""
    total = sum_of(node_costs(graph, batch=batch))
    is_open = any(parameter.open_axes for parameter in graph.parameters.values())
    return replace(total, parameters=graph.num_parameters, has_open_parameters=is_open)


class _UnknownSizeError(Exception):
    """A size that a count needs is not known."""


def sizes_of(value: ir.Value | None, batch: int) -> tuple[int, ...] | None:
    """Return the sizes of a value for a batch of some size; None if one of them is not known."""
    if value is None or value.shape is None:
        return None
    sizes: list[int] = []
    for dim in value.shape:
        if isinstance(dim, int):
            sizes.append(dim)
            continue
        size = batch if dim.value == BATCH else dim.evaluate({BATCH: batch})
        if not isinstance(size, int):
            return None
        sizes.append(size)
    return tuple(sizes)


def _product(sizes: tuple[int, ...] | None) -> int:
    return prod(sizes) if sizes is not None else 0


def num_bytes(value: ir.Value | None, batch: int) -> int:
    """Return the bytes of a value for a batch of some size; 0 if a size is not known."""
    return _num_bytes(value, sizes_of(value, batch))


def _num_bytes(value: ir.Value | None, sizes: tuple[int, ...] | None) -> int:
    itemsize = value.dtype.itemsize if value is not None and value.dtype else 4
    return int(_product(sizes) * itemsize)


_Sizes = tuple[int, ...] | None

_Shapes = Sequence[_Sizes]


def _known(shapes: _Shapes, index: int) -> tuple[int, ...]:
    sizes = shapes[index]
    if sizes is None:
        raise _UnknownSizeError
    return sizes


def _conv(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """Every output element sums over the channels of its group and the filter."""
    return prod(_known(outputs, 0)) * prod(_known(inputs, 1)[1:])


def _conv_transpose(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """Every input element is spread over the outputs of its group and the filter."""
    return prod(_known(inputs, 0)) * prod(_known(inputs, 1)[1:])


def _gemm(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    contracted = 0 if node.attributes.get_int("transA", 0) else 1
    return prod(_known(outputs, 0)) * _known(inputs, 0)[contracted]


def _matmul(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    return prod(_known(outputs, 0)) * _known(inputs, 0)[-1]


def _recurrent(node: ir.Node, inputs: _Shapes, outputs: _Shapes) -> int:
    """At every step of every sequence each element of both weights is used once; see ONNX LSTM."""
    steps, batch = _known(inputs, 0)[:2]
    return steps * batch * (prod(_known(inputs, 1)) + prod(_known(inputs, 2)))


_MULTIPLY_ADDS: dict[str, Callable[[ir.Node, _Shapes, _Shapes], int]] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
}
