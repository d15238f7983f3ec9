"""A Graph as rows for people and as JSON values for machines: layers or nodes with shapes and costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.graph.attributes import attributes_of
from netweave.graph.costs import Cost, layer_costs, node_cost, total_cost
from netweave.graph.layers import layer_keys
from netweave.graph.wording import dims_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx_ir as ir

    from netweave.graph.graph import Graph
    from netweave.graph.layers import Layer
    from netweave.graph.wording import Dims


@dataclass(frozen=True, slots=True)
class ValueSummary:
    """A value of the net.

    Attributes:
        name: Its name.
        dims: Its sizes; None if not even their number is known.
        gone: Whether a pass has fused the value away.
    """

    name: str
    dims: Dims | None
    gone: bool = False

    def __str__(self) -> str:
        return dims_text(self.dims)


@dataclass(frozen=True, slots=True)
class LayerSummary:
    """One layer with what it reads, makes, stores and costs.

    Attributes:
        layer: The layer.
        inputs: The values that it reads.
        outputs: The values that it makes.
        cost: Its costs for the batch that was asked for.
    """

    layer: Layer
    inputs: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    cost: Cost


@dataclass(frozen=True, slots=True)
class NodeSummary:
    """One node with what it reads, makes and costs.

    Attributes:
        name: Its name.
        operator: Its type; ``netweave::Type`` for one that ONNX lacks.
        attributes: Its attributes as Python values.
        inputs: The values that it reads, without stored arrays and constants.
        stored: The stored arrays and constants that it reads.
        outputs: The values that it makes.
        layers: Keys of the layers that it belongs to.
        cost: Its costs for the batch that was asked for.
    """

    name: str
    operator: str
    attributes: Mapping[str, Any]
    inputs: tuple[ValueSummary, ...]
    stored: tuple[ValueSummary, ...]
    outputs: tuple[ValueSummary, ...]
    layers: tuple[str, ...]
    cost: Cost


def layer_summaries(graph: Graph, *, batch: int = 1) -> list[LayerSummary]:
    """Return a row for each layer, in the order of the source.

    Args:
        graph: The graph.
        batch: Stands for a symbolic batch size in the costs, >= 1.
    """
    values = graph.values()
    return [
        LayerSummary(
            layer=layer,
            inputs=tuple(_named(name, values.get(name)) for name in layer.inputs),
            outputs=tuple(_named(name, values.get(name)) for name in layer.outputs),
            cost=cost,
        )
        for layer, cost in zip(graph.layers.values(), layer_costs(graph, batch=batch), strict=True)
    ]


def node_summaries(graph: Graph, *, batch: int = 1) -> list[NodeSummary]:
    """Return a row for each node, in topological order; ``batch`` as in ``layer_summaries``."""
    return [
        NodeSummary(
            name=node.name or "",
            operator=f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
            attributes=attributes_of(node),
            inputs=_summaries(value for value in node.inputs if value and not value.is_initializer()),
            stored=_summaries(value for value in node.inputs if value and value.is_initializer()),
            outputs=_summaries(node.outputs),
            layers=layer_keys(node),
            cost=node_cost(node, batch=batch),
        )
        for node in graph.nodes
    ]


def graph_to_json(graph: Graph, *, batch: int = 1) -> dict[str, Any]:
    """Return everything that is known of a graph but its arrays, as JSON values.

    Args:
        graph: The graph.
        batch: Stands for a symbolic batch size in the costs, >= 1.
    """
    cost = total_cost(graph, batch=batch)
    return {
        "name": graph.name,
        "format": graph.format,
        "files": list(graph.files),
        "loaded": graph.loaded,
        "notes": list(graph.notes),
        "inputs": [
            _value_json(value) | {"declared": _listed(graph.declared.get(value.name))}
            for value in _summaries(graph.inputs)
        ],
        "outputs": [_value_json(value) for value in _summaries(graph.outputs)],
        "totals": {
            "layers": len(graph.layers),
            "nodes": len(graph.nodes),
            "parameters": graph.num_parameters,
            **_cost_json(cost),
        },
        "layers": [_layer_json(row) for row in layer_summaries(graph, batch=batch)],
        "nodes": [_node_json(row) for row in node_summaries(graph, batch=batch)],
        "parameters": [
            {"key": entry.key, "shape": list(entry.dims), "role": entry.role, "loaded": entry.loaded}
            for entry in graph.parameters.values()
        ],
    }


def value_summary(value: ir.Value) -> ValueSummary:
    """Return the name and sizes of a value."""
    return _named(value.name or "", value)


def _named(name: str, value: ir.Value | None) -> ValueSummary:
    if value is None or value.shape is None:
        return ValueSummary(name, None, gone=value is None)
    return ValueSummary(name, tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape))


def _summaries(values: Iterable[ir.Value]) -> tuple[ValueSummary, ...]:
    return tuple(value_summary(value) for value in values)


def _listed(dims: Dims | None) -> list[int | str | None] | None:
    return None if dims is None else list(dims)


def _value_json(value: ValueSummary) -> dict[str, Any]:
    return {"name": value.name, "shape": _listed(value.dims)}


def _cost_json(cost: Cost) -> dict[str, Any]:
    return {
        "multiply_adds": cost.multiply_adds,
        "activation_bytes": cost.activation_bytes,
        "exact": cost.exact,
    }


def _layer_json(row: LayerSummary) -> dict[str, Any]:
    layer = row.layer
    return {
        "key": layer.key,
        "name": layer.name,
        "type": layer.type,
        "settings": dict(layer.settings),
        "inputs": [_value_json(value) for value in row.inputs],
        "outputs": [_value_json(value) for value in row.outputs],
        "parameters": list(layer.parameters),
        "num_parameters": row.cost.parameters,
        "call": layer.call,
        "file": layer.origin.file if layer.origin else None,
        "line": layer.origin.line if layer.origin else None,
        **_cost_json(row.cost),
    }


def _node_json(row: NodeSummary) -> dict[str, Any]:
    return {
        "name": row.name,
        "operator": row.operator,
        "attributes": {name: _plain(value) for name, value in row.attributes.items()},
        "inputs": [_value_json(value) for value in row.inputs],
        "stored": [_value_json(value) for value in row.stored],
        "outputs": [_value_json(value) for value in row.outputs],
        "layers": list(row.layers),
        **_cost_json(row.cost),
    }


def _plain(value: Any) -> Any:
    """Return an attribute as JSON; a tensor or a graph, which is none, in words."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return repr(value)
