"""Graphs as text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from netweave.graph.attributes import attributes_of
from netweave.graph.costs import Cost, layer_costs, node_cost, total_cost
from netweave.graph.layers import Layer, layer_keys
from netweave.graph.opset import BATCH

if TYPE_CHECKING:
    from netweave.graph.graph import Graph


Dims = Sequence[int | str | None]
"""Sizes; a symbolic one by its name, None where nothing is known of it."""

OPEN_LETTERS = "CDHW"
"""Names of sizes of an image that a file leaves open: channels, depth, height, width."""

PREFIXES = ("", "k", "M", "G", "T")

MAX_NAMES = 4
"""Names that a sentence lists; more are not read but skipped over."""

HOW_TO_TRAIN = (
    *("param", "blobs_lr", "weight_decay", "blob_share_mode", "propagate_down", "weight_filler"),
    *("bias_filler", "filler", "lr_mult", "wd_mult", "__lr_mult__", "__wd_mult__", "__init__"),
)
HOW_TO_COMPUTE = (
    *("engine", "workspace", "cudnn_tune", "cudnn_off"),
    *("ctx_group", "__ctx_group__", "force_mirroring"),
)
WHERE_AND_WHEN = ("include", "exclude", "phase")

WITHOUT_EFFECT = frozenset((*HOW_TO_TRAIN, *HOW_TO_COMPUTE, *WHERE_AND_WHEN))
"""Settings that the short form leaves out: they say nothing about what a trained layer computes."""


def amount_text(amount: int) -> str:
    """Return a large number with three digits and a prefix.

    >>> [amount_text(n) for n in (950, 27_000, 1_814_073_344)]
    ['950', '27.0 k', '1.81 G']
    """
    value, power = float(amount), 0
    while value >= 999.5 and power + 1 < len(PREFIXES):
        value, power = value / 1000, power + 1
    if not power:
        return str(amount)
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {PREFIXES[power]}"


def bytes_text(num_bytes: int) -> str:
    """Return a number of bytes.

    >>> bytes_text(26_528)
    '26.5 kB'
    """
    amount = amount_text(num_bytes)
    return f"{amount}B" if " " in amount else f"{amount} B"


def ratio_text(value: float) -> str:
    """Return an error relative to the rms, to one digit: that many say nothing.

    >>> ratio_text(2.13e-7), ratio_text(0.534), ratio_text(0.0)
    ('2e-07', '0.5', '0')
    """
    return f"{value:.1g}"


def dims_text(dims: Dims | None) -> str:
    """Return sizes, ``?`` for those that are not known; a formula of unknown sizes is not known either.

    >>> dims_text(("N", "C", 24, None, "floor(w/2)")), dims_text(()), dims_text(None)
    ('NxCx24x?x?', 'scalar', '?')
    """
    if dims is None:
        return "?"
    named = {BATCH, *OPEN_LETTERS}
    return "x".join(str(dim) if isinstance(dim, int) or dim in named else "?" for dim in dims) or "scalar"


def names_text(names: Iterable[str], most: int = 5) -> str:
    """Return the first few of some names, for a message.

    >>> names_text(["conv1", "fc", "conv1"], most=1)
    "'conv1' and 1 more"
    """
    unique = list(dict.fromkeys(names))
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(map(repr, unique[:most])) + more


def list_names(names: Iterable[str]) -> str:
    """Return names for a sentence.

    >>> list_names(["conv1", "conv2"]), list_names("abcdef")
    ('conv1, conv2', 'a, b, c, d and 2 more')
    """
    names = list(dict.fromkeys(names))
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def list_stretch(names: Iterable[str]) -> str:
    """Return the names of layers that follow one another.

    >>> list_stretch(["conv1", "conv2"]), list_stretch("abcdef")
    ('conv1, conv2', 'a to f (6 layers)')
    """
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= MAX_NAMES else f"{names[0]} to {names[-1]} ({len(names)} layers)"


def joined_text(texts: Iterable[str]) -> str:
    """Return phrases as one, each once, without empty ones.

    >>> joined_text(["pad=0", "stride=2", "pad=0"]), joined_text(["pad=0", "stride=2", "kernel=3"])
    ('pad=0 and stride=2', 'pad=0, stride=2 and kernel=3')
    """
    phrases = [text for text in dict.fromkeys(texts) if text]
    return " and ".join(filter(None, [", ".join(phrases[:-1]), *phrases[-1:]]))


def settings_texts(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings that matter by name, values as written, groups of settings taken apart.

    >>> dict(settings_texts({"pooling_param": {"pool": "MAX", "pad": [1, 2]}, "engine": "CAFFE"}))
    {'pool': 'MAX', 'pad': '1,2'}
    """
    for name, value in settings.items():
        groups = value if isinstance(value, list) else [value]
        if name in WITHOUT_EFFECT:
            continue
        if groups and all(isinstance(group, dict) for group in groups):
            for group in groups:
                yield from settings_texts(group)
        else:
            yield name, _value_text(value)


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value.replace(" ", "") if value[:1] in {"(", "["} else value
    if isinstance(value, Sequence):
        return ",".join([str(item) if type(item) is int else _value_text(item) for item in value])
    if type(value) is int:  # most are; the rest as JSON has it
        return str(value)
    if isinstance(value, (bool, int, float)) or value is None:
        return json.dumps(value)
    return repr(value)


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
