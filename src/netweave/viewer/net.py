"""A net as the page knows it: layers with source lines, nodes, values and arrays, which refer by number."""

from __future__ import annotations

import math
import textwrap
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.deferred import collector_at_rest
from netweave.formats import format_text
from netweave.graph import Cost, Graph, Layer, layer_costs, layer_keys, node_costs, parameter_key
from netweave.graph.costs import Costs
from netweave.graph.summary import settings_texts
from netweave.viewer.tables import placed, rare, repeated, table
from netweave.viewer.values import statistics_table

if TYPE_CHECKING:
    from netweave.comparison import NetRecord

MAX_LINES = 24
"""Lines of one layer that are shown."""

MAX_COLUMNS = 160
"""Characters of a line that are shown."""

MAX_BYTES = 50_000_000
"""Size from which on a file is not read again for the sake of its lines."""


def excerpts(layers: Iterable[Layer]) -> dict[str, str]:
    """Return the text of each layer that stands at a line of a file, by layer key.

    A file that is gone, or too large, has none: the page says where the layer stands all the same.
    """
    placed: dict[str, list[tuple[int, str]]] = {}
    for layer in layers:
        if layer.origin is not None and layer.origin.line is not None:
            placed.setdefault(layer.origin.file, []).append((layer.origin.line, layer.key))
    texts: dict[str, str] = {}
    for file, places in placed.items():
        lines = _lines(Path(file))
        begins = sorted({line for line, _ in places})
        for line, key in places:
            following = bisect_right(begins, line)
            end = begins[following] - 1 if following < len(begins) else len(lines)
            text = excerpt(lines[line - 1 : end])
            if text:
                texts[key] = text
    return texts


def excerpt(lines: Sequence[str]) -> str:
    r"""Return the first lines, until the brackets that they open are closed, without their indentation.

    >>> excerpt(["  layer {", '    name: "a"  # {', "    pool { pad: 1 }", "  }", "# next"])
    'layer {\n  name: "a"  # {\n  pool { pad: 1 }\n}'
    """
    taken: list[str] = []
    depth = 0
    for line in islice(lines, MAX_LINES):
        taken.append(line.rstrip()[:MAX_COLUMNS])
        code = line.partition("#")[0]
        depth += sum(code.count(mark) for mark in "{[(") - sum(code.count(mark) for mark in ")]}")
        if depth <= 0 and any(mark in code for mark in ")]}"):
            break
    return textwrap.dedent("\n".join(taken)).strip("\n")


def _lines(file: Path) -> list[str]:
    try:
        if not file.is_file() or file.stat().st_size > MAX_BYTES:
            return []
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


VERSION = 3
"""Version of the document; the page shows those of versions 1 and 2 as well, and refuses others."""

Json = dict[str, Any]


def net_document(graph: Graph) -> Json:
    """Return one net for the page, as JSON values.

    Args:
        graph: The net.
    """
    with collector_at_rest():
        net = net_json(graph, graph)
    return {"version": VERSION, "kind": "net", "title": graph.name, "nets": [net]}


def net_json(source: Graph, shown: Graph, *, seconds: Mapping[str, float] | None = None) -> Json:
    """Return a net as JSON values.

    Args:
        source: The net as it was read: its layers and stored arrays are shown.
        shown: The same net in the form whose nodes and sizes are shown.
        seconds: Time that each layer takes, by key, where it was measured.
    """
    values = _Values(shown)
    parameters = {key: number for number, key in enumerate(source.parameters)}
    of_nodes = node_costs(shown)
    nodes = _node_table(shown, of_nodes, values, parameters, list(source.layers))
    layers = _layer_table(
        source.layers,
        values,
        parameters,
        costs=_layer_costs(source, shown, of_nodes),
        seconds=seconds,
    )
    entries = source.parameters.values()
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
        "values": values.table(),
        "parameters": table(
            len(entries),
            key=list(parameters),
            shape=repeated([entry.dims for entry in entries]),
            role=repeated([entry.role for entry in entries]),
            loaded=repeated([entry.loaded for entry in entries]),
        ),
        "statistics": statistics_table(source, parameters),
        "totals": _cost_json(of_nodes.total()) | {"parameters": source.num_parameters},
        **({"unknown": list(source.unknown)} if source.unknown else {}),
    }


def _layer_costs(source: Graph, shown: Graph, of_nodes: Costs) -> Costs:
    """Return the costs of the layers of the net as it was read, in their order."""
    costs = layer_costs(shown, of_nodes=of_nodes)
    if list(shown.layers) == list(source.layers):
        return costs
    known = dict(zip(shown.layers, costs, strict=True))
    return Costs.of([known.get(key, Cost()) for key in source.layers])


def record_json(record: NetRecord) -> Json:
    """Return what a comparison that was opened from a file knows of a net: its layers."""
    values = _Values(None)
    keys = dict.fromkeys(key for layer in record.layers.values() for key in layer.parameters)
    parameters = {key: number for number, key in enumerate(keys)}
    return {
        "name": record.name,
        "format": record.format,
        "files": file_names(record.files),
        "loaded": True,
        "notes": [],
        "inputs": [],
        "outputs": [],
        "layers": _layer_table(record.layers, values, parameters),
        "nodes": table(0),
        "values": values.table(),
        "parameters": table(
            len(keys), key=list(keys), shape=rare([None]), role={"values": [""]}, loaded={"values": [True]}
        ),
        "statistics": table(0),
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
    """Values by number, in the order in which they are asked for, with their sizes."""

    def __init__(self, graph: Graph | None) -> None:
        self._number: dict[str, int] = {}
        self._sizes: dict[tuple[int | str | None, ...] | None, int] = {}
        self._at: list[int] = []
        self._sizes_of_shape: dict[int, int] = {}
        self._graph = graph

    def table(self) -> Json:
        """Return their names and sizes; no sizes where not even their number is known."""
        return table(len(self._number), name=list(self._number), sizes=placed(list(self._sizes), self._at))

    def numbers(self, names: Iterable[str]) -> list[int]:
        """Return the numbers of values by name."""
        known = self._number
        return [
            known[name] if name in known else self._add(name, self._named.get(name)) for name in names if name
        ]

    def number(self, value: ir.Value) -> int | None:
        """Return the number of a value; None if it has no name."""
        name = value.name
        if not name:
            return None
        known = self._number.get(name)
        return self._add(name, value) if known is None else known

    @cached_property
    def _named(self) -> Mapping[str, ir.Value]:
        if self._graph is None:
            return {}
        values = self._graph.values()
        return values | {name: values[old] for name, old in self._graph.aliases.items() if old in values}

    def _add(self, name: str, value: ir.Value | None) -> int:
        """Take in a value; values share shapes, and each shape is looked at once."""
        shape = value.shape if value is not None else None
        place = self._sizes_of_shape.get(id(shape))
        if place is None:
            sizes = None
            if shape is not None:
                sizes = tuple([dim if isinstance(dim, int) else dim.value for dim in shape.dims])
            place = self._sizes_of_shape[id(shape)] = self._sizes.setdefault(sizes, len(self._sizes))
        number = self._number[name] = len(self._at)
        self._at.append(place)
        return number


def _layer_table(
    layers: Mapping[str, Layer],
    values: _Values,
    parameters: Mapping[str, int],
    *,
    costs: Costs | None = None,
    seconds: Mapping[str, float] | None = None,
) -> Json:
    entries = list(layers.values())
    origins = [layer.origin for layer in entries]
    texts = excerpts(entries) if costs is not None else {}
    further = {} if seconds is None else {"seconds": rare([seconds.get(key) for key in layers])}
    return table(
        len(entries),
        key=[layer.key for layer in entries],
        # of most the key; it is the name with a number only where a net repeats a name
        name=repeated([None if layer.name == layer.key else layer.name for layer in entries]),
        type=repeated([layer.type for layer in entries]),
        settings=repeated([tuple(settings_texts(layer.settings)) for layer in entries]),
        inputs=[values.numbers(layer.inputs) for layer in entries],
        outputs=[values.numbers(layer.outputs) for layer in entries],
        parameters=[[parameters[key] for key in layer.parameters if key in parameters] for layer in entries],
        file=repeated([_file_name(origin.file) if origin else None for origin in origins]),
        line=rare([origin.line if origin else None for origin in origins]),
        text=rare([texts.get(key) for key in layers]),
        call=repeated([layer.call for layer in entries]),
        cost=_cost_table(costs) if costs is not None else {"values": [None]},
        **further,
    )


def _node_table(
    graph: Graph, costs: Costs, values: _Values, parameters: Mapping[str, int], layers: Iterable[str]
) -> Json:
    numbers = {key: number for number, key in enumerate(layers)}
    arrays = {
        value: parameters.get(parameter_key(value) or "") for value in graph.model.graph.initializers.values()
    }
    nodes = list(graph.nodes)
    inputs: list[list[int]] = []
    stored: list[list[int]] = []
    constants: list[list[int]] = []
    outputs: list[list[int]] = []
    for node in nodes:
        read: list[int] = []
        held: list[int] = []
        fixed: list[int] = []
        for value in node.inputs:
            if value is None or (number := values.number(value)) is None:
                continue
            if value not in arrays:
                read.append(number)
                continue
            fixed.append(number)
            key = arrays[value]
            if key is not None and key not in held:
                held.append(key)
        inputs.append(read)
        stored.append(held)
        constants.append(fixed)
        made = map(values.number, node.outputs)
        outputs.append([number for number in made if number is not None])
    return table(
        len(nodes),
        name=[node.name or "" for node in nodes],
        type=repeated([f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes]),
        settings=repeated([_settings(node) for node in nodes]),
        inputs=inputs,
        outputs=outputs,
        parameters=stored,
        constants=constants,
        layers=[[numbers[key] for key in layer_keys(node) if key in numbers] for node in nodes],
        cost=_cost_table(costs),
    )


def _settings(node: ir.Node) -> tuple[tuple[str, str], ...]:
    attributes = node.attributes
    if not attributes:
        return ()
    return tuple([(name, _text(attribute.value)) for name, attribute in attributes.items()])


def _cost_table(costs: Costs) -> Json:
    return table(
        len(costs.exact),
        parameters=repeated(costs.parameters),
        multiply_adds=repeated(costs.multiply_adds),
        activation_bytes=repeated(costs.activation_bytes),
        exact=repeated(costs.exact),
    )


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
        shown = ",".join([str(item) if type(item) is int else _text(item) for item in value[:16]])
        return shown if len(value) <= 16 else f"{shown},... ({len(value)})"
    text = value if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
