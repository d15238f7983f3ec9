"""A Comparison as JSON values, and the record of a net in it."""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from netweave.graph import Graph, LayerTable

if TYPE_CHECKING:
    from netweave.comparison.result.causes import Cause
    from netweave.comparison.result.comparison import Comparison


@dataclass(frozen=True, slots=True)
class NetRecord:
    """A net without its nodes and arrays.

    Attributes:
        name: The net's name.
        format: Its format.
        files: Its files.
        layers: Its layers.
    """

    name: str
    format: str
    files: tuple[str, ...]
    layers: LayerTable

    @classmethod
    def of(cls, net: Graph | NetRecord) -> NetRecord:
        """Return the record of a net."""
        return cls(net.name, net.format, tuple(net.files), net.layers)


VERSION = 2
"""Version of the JSON form; those of version 1 are read as well, others are refused."""


def comparison_to_json(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as JSON values; of the nets, their names, files and layers."""
    fields = dataclasses.fields(comparison)
    values = {f.name: _plain(getattr(comparison, f.name)) for f in fields if f.name not in {"a", "b"}}
    nets = {side: _plain(NetRecord.of(getattr(comparison, side))) for side in ("a", "b")}
    content = {
        "mark": comparison.verdict.mark,
        "exit_status": comparison.exit_status,
        "headline": comparison.headline,
        "causes": [_cause(cause) for cause in comparison.causes],
    }
    return {"version": VERSION, **nets, **values, **content}


def _cause(cause: Cause) -> dict[str, Any]:
    """Return a cause with its places; errors and edits stand with the findings of the groups."""
    places = [
        {name: getattr(finding, name) for name in ("layer_a", "layer_b", "place_a", "place_b")}
        for finding in cause.places
    ]
    return {"text": cause.text, "fix": cause.fix, "latent": cause.latent, "places": places}


@cache
def _written_fields(kind: type) -> tuple[str, ...] | None:
    """Return the names of the fields of a dataclass that are written; None for any other class."""
    if not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind) if field.metadata.get("json", True))


_EXACT = frozenset({bool, int, str, type(None)})

_SIMPLE = _EXACT | {float}


def _plain(value: Any) -> Any:
    kind: type = type(value)
    if kind is float and not math.isfinite(value):
        return str(value)  # JSON has no infinity
    if kind in _SIMPLE:
        return value
    fields = _written_fields(kind)
    if fields is not None:
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, LayerTable):
        return [_plain(layer) for layer in value.values()]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        simple = _EXACT.issuperset(map(type, value))  # orders of channels are long
        return list(value) if simple else [_plain(item) for item in value]
    return value
