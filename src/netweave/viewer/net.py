"""A net as the page knows it: layers, nodes, values and stored arrays as JSON values that refer by number."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.formats import format_text
from netweave.graph import (
    Cost,
    layer_costs,
    layer_keys,
    node_costs,
    parameter_key,
)
from netweave.graph.collection import collector_at_rest
from netweave.graph.costs import sum_of
from netweave.graph.wording import settings_texts
from netweave.viewer.arrays import parameter_statistics
from netweave.viewer.excerpts import excerpts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import onnx_ir as ir

    from netweave.comparison import NetRecord
    from netweave.graph import Graph, Layer

VERSION = 2
"""Version of the document; the page shows those of version 1 as well, and refuses others."""

Json = dict[str, Any]


def net_document(graph: Graph) -> Json:
    """Return one net for the page, as JSON values.

    Args:
        graph: The net.
    """
    with collector_at_rest():
        net = net_json(graph, graph)
    return {"version": VERSION, "kind": "net", "title": graph.name, "nets": [net]}


def net_json(source: Graph, shown: Graph) -> Json:
    """Return a net as JSON values.

    Args:
        source: The net as it was read: its layers and stored arrays are shown.
        shown: The same net in the form whose nodes and sizes are shown.
    """
    values = _Values(shown)
    parameters = {key: number for number, key in enumerate(source.parameters)}
    numbers = {key: number for number, key in enumerate(source.layers)}
    of_nodes = node_costs(shown)
    costs = layer_costs(shown, of_nodes=of_nodes)
    nodes = [
        _node_json(node, cost, values, parameters, numbers)
        for node, cost in zip(shown.nodes, of_nodes, strict=True)
    ]
    total = sum_of(of_nodes)
    texts = excerpts(source.layers.values())
    layers = [
        _layer_json(layer, values, parameters, costs.get(key, Cost())) | {"text": texts.get(key)}
        for key, layer in source.layers.items()
    ]
    statistics = parameter_statistics(source)
    return {
        "name": source.name,
        "format": format_text(source),
        "files": file_names(source.files),
        "loaded": source.loaded,
        "notes": list(source.notes),
        "inputs": values.numbers(value.name or "" for value in source.inputs),
        "outputs": values.numbers(value.name or "" for value in shown.outputs),
        "layers": layers,
        "nodes": nodes,
        "values": values.rows,
        "parameters": [
            {
                "key": entry.key,
                "shape": list(entry.dims),
                "role": entry.role,
                "loaded": entry.loaded,
                "statistics": statistics.get(entry.key),
            }
            for entry in source.parameters.values()
        ],
        "totals": {**_cost_json(total), "parameters": source.num_parameters},
    }


def record_json(record: NetRecord) -> Json:
    """Return what a comparison that was opened from a file knows of a net: its layers."""
    values = _Values(None)
    parameters = {
        key: number
        for number, key in enumerate(
            dict.fromkeys(key for layer in record.layers.values() for key in layer.parameters)
        )
    }
    return {
        "name": record.name,
        "format": record.format,
        "files": file_names(record.files),
        "loaded": True,
        "notes": [],
        "inputs": [],
        "outputs": [],
        "layers": [_layer_json(layer, values, parameters, None) for layer in record.layers.values()],
        "nodes": [],
        "values": values.rows,
        "parameters": [
            {"key": key, "shape": None, "role": "", "loaded": True, "statistics": None} for key in parameters
        ],
        "totals": None,
    }


def file_names(files: Iterable[str]) -> list[str]:
    """Return names of files without their folders, which are nobody's business where a page is sent to."""
    return [_file_name(file) for file in files]


@lru_cache(maxsize=256)
def _file_name(file: str) -> str:
    return Path(file).name


def real(value: float | None) -> float | str | None:
    """Return a number as JSON has it; those that it lacks (nan, inf) as strings."""
    return value if value is None or math.isfinite(value) else str(value)


class _Values:
    """Values by number, in the order in which they are asked for.

    Attributes:
        rows: The name and sizes of each; no sizes where not even their number is known.
    """

    def __init__(self, graph: Graph | None) -> None:
        self.rows: list[list[Any]] = []
        self._number: dict[str, int] = {}
        self._sizes: dict[int, list[int | str | None]] = {}
        self._known = graph.values() if graph else {}
        self._aliases = graph.aliases if graph else {}

    def numbers(self, names: Iterable[str]) -> list[int]:
        known = self._number
        return [known[name] if name in known else self._add(name) for name in names if name]

    def _add(self, name: str) -> int:
        number = self._number[name] = len(self.rows)
        value = self._known.get(name) or self._known.get(self._aliases.get(name, ""))
        self.rows.append([name, self.sizes(value)])
        return number

    def sizes(self, value: ir.Value | None) -> list[int | str | None] | None:
        """Return the sizes of a value; values share shapes, and each shape is looked at once."""
        shape = value.shape if value is not None else None
        if shape is None:
            return None
        if id(shape) not in self._sizes:
            self._sizes[id(shape)] = [dim if isinstance(dim, int) else dim.value for dim in shape]
        return self._sizes[id(shape)]


def _layer_json(layer: Layer, values: _Values, parameters: Mapping[str, int], cost: Cost | None) -> Json:
    return {
        "key": layer.key,
        "name": layer.name,
        "type": layer.type,
        "settings": [list(pair) for pair in settings_texts(layer.settings)],
        "inputs": values.numbers(layer.inputs),
        "outputs": values.numbers(layer.outputs),
        "parameters": [parameters[key] for key in layer.parameters if key in parameters],
        "file": _file_name(layer.origin.file) if layer.origin else None,
        "line": layer.origin.line if layer.origin else None,
        "call": layer.call,
        "cost": _cost_json(cost) if cost else None,
    }


def _node_json(
    node: ir.Node, cost: Cost, values: _Values, parameters: Mapping[str, int], layers: Mapping[str, int]
) -> Json:
    read: list[str] = []
    stored: list[int] = []
    constants: list[list[Any]] = []
    for value in node.inputs:
        if value is None:
            continue
        name = value.name or ""
        if value.is_initializer():
            constants.append([name, values.sizes(value)])
        else:
            read.append(name)
        key = parameter_key(value)
        if key and key in parameters and (number := parameters[key]) not in stored:
            stored.append(number)
    return {
        "name": node.name or "",
        "type": f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
        "settings": [[name, _text(attribute.value)] for name, attribute in node.attributes.items()],
        "inputs": values.numbers(read),
        "outputs": values.numbers([value.name or "" for value in node.outputs]),
        "parameters": stored,
        "constants": constants,
        "layers": [layers[key] for key in layer_keys(node) if key in layers],
        "cost": _cost_json(cost),
    }


def _cost_json(cost: Cost) -> Json:
    return {
        "parameters": cost.parameters,
        "multiply_adds": cost.multiply_adds,
        "activation_bytes": cost.activation_bytes,
        "exact": cost.exact,
    }


def _text(value: Any) -> str:
    """Return an attribute for people; of a long list its beginning."""
    if isinstance(value, (list, tuple)):
        shown = ",".join(_text(item) for item in value[:16])
        return shown if len(value) <= 16 else f"{shown},... ({len(value)})"
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
