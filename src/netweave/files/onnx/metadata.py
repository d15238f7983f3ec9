"""The tables of a Graph as metadata of an ONNX file, and back.

A model that Netweave writes carries, as JSON texts in ``metadata_props``: ``netweave.net`` (the format
and files of its source, declared shapes, notes), ``netweave.layers`` (the layer table),
``netweave.parameters`` (the stored arrays) and ``netweave.initializers`` (which initializer was made
from which array, and by what change of layout). Nodes name their layers themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from typing import Any, TypeVar

import onnx_ir as ir

from netweave.errors import ReadError
from netweave.graph import (
    Graph,
    Layer,
    LayerTable,
    Origin,
    Parameter,
    StoredFormat,
    parameter_key,
    parameter_layout,
)
from netweave.graph.parameters import Step, tag_parameter

NET, LAYERS, PARAMETERS, INITIALIZERS = (
    "netweave.net",
    "netweave.layers",
    "netweave.parameters",
    "netweave.initializers",
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Saved:
    """The tables as a file holds them; see ``Graph`` for their meaning."""

    layers: LayerTable
    parameters: dict[str, Parameter]
    declared: dict[str, tuple[int | None, ...]]
    format: str
    files: tuple[str, ...]
    notes: tuple[str, ...]
    initializers: dict[str, tuple[str, tuple[Step, ...]]]
    returned: Origin | None = None
    assumed: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def graph(self, model: ir.Model) -> Graph:
        """Return the graph of a model with these tables."""
        return Graph(
            model=model,
            layers=self.layers,
            parameters=self.parameters,
            declared=self.declared,
            format=self.format,
            files=self.files,
            notes=self.notes,
            returned=self.returned,
            assumed=self.assumed,
        )

    def tag(self, model: ir.Model, *, place: str) -> None:
        """Mark the initializers with the stored arrays that they were made from.

        Raises:
            ReadError: A stored array is named that is not in the table.
        """
        for name, (key, steps) in self.initializers.items():
            if key not in self.parameters:
                raise ReadError(f"{INITIALIZERS} names {key!r}, which {PARAMETERS} lacks", place=place)
            if name in model.graph.initializers:
                tag_parameter(model.graph.initializers[name], key, steps)


def dump(graph: Graph) -> dict[str, str]:
    """Return the tables of a graph as metadata of its model."""
    net = {
        "format": graph.format,
        "files": graph.files,
        "declared": graph.declared,
        "notes": graph.notes,
        "returned": asdict(graph.returned) if graph.returned else None,
        "assumed": graph.assumed,
    }
    initializers = {
        name: (key, parameter_layout(value))
        for name, value in graph.model.graph.initializers.items()
        if (key := parameter_key(value)) is not None
    }
    return {
        NET: json.dumps(net),
        LAYERS: json.dumps([asdict(layer) for layer in graph.layers.values()]),
        PARAMETERS: json.dumps([asdict(parameter) for parameter in graph.parameters.values()]),
        INITIALIZERS: json.dumps(initializers),
    }


def load(model: ir.Model, *, place: str) -> Saved | None:
    """Return the tables that a model carries, None if Netweave did not write it.

    Raises:
        ReadError: They are not as ``dump`` writes them.
    """
    if NET not in model.metadata_props:
        return None
    try:
        net, layers, parameters, initializers = (
            json.loads(model.metadata_props.get(key, "null"))
            for key in (NET, LAYERS, PARAMETERS, INITIALIZERS)
        )
        return Saved(
            layers=LayerTable(_layer(row) for row in layers),
            parameters={row["key"]: _parameter(row) for row in parameters},
            declared={str(name): _sizes(shape) for name, shape in net["declared"].items()},
            format=_text(net["format"]),
            files=_texts(net["files"]),
            notes=_texts(net["notes"]),
            initializers={name: (_text(key), _steps(steps)) for name, (key, steps) in initializers.items()},
            returned=_origin(net.get("returned")),
            assumed={str(name): tuple(map(int, sizes)) for name, sizes in net.get("assumed", {}).items()},
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ReadError(
            f"its netweave metadata are damaged ({type(error).__name__}: {error}); write the file again",
            place=place,
        ) from error


def _layer(row: Mapping[str, Any]) -> Layer:
    made = _made(Layer, row)
    return Layer(
        **made
        | {
            "settings": _mapping(row["settings"]),
            "origin": _origin(row["origin"]),
            "definition": _origin(row.get("definition")),
            "callers": tuple(place for caller in row.get("callers", ()) if (place := _origin(caller))),
        }
        | {name: _texts(row[name]) for name in ("inputs", "outputs", "parameters")}
        | {name: _text(row[name]) for name in ("key", "name", "type")}
        | {"call": int(row["call"])}
    )


def _origin(row: Mapping[str, Any] | None) -> Origin | None:
    return Origin(_text(row["file"]), row["line"] and int(row["line"])) if row else None


def _parameter(row: Mapping[str, Any]) -> Parameter:
    return Parameter(
        **_made(Parameter, row)
        | {"shape": tuple(int(size) for size in row["shape"]), "filler": _mapping(row["filler"])}
        | {"open_axes": tuple(int(axis) for axis in row.get("open_axes", ()))}
        | {"stored_format": _stored_format(row.get("stored_format"))}
        | {name: _text(row[name]) for name in ("key", "role")}
        | {name: float(row[name]) for name in ("lr_mult", "decay_mult")}
    )


def _stored_format(row: Mapping[str, Any] | None) -> StoredFormat | None:
    if not row:
        return None
    scale, zero_point = tuple(map(float, row["scale"])), tuple(map(int, row["zero_point"]))
    return StoredFormat(_text(row["dtype"]), scale, zero_point, int(row["axis"]))


def _made(kind: type, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a row; earlier versions wrote none of those that have a default by now."""
    return {
        field.name: row[field.name]
        for field in fields(kind)
        if field.name in row or (field.default is MISSING and field.default_factory is MISSING)
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(_text(value) for value in values)


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is not a table")
    return value


def _sizes(shape: Any) -> tuple[int | None, ...]:
    return tuple(None if size is None else int(size) for size in shape)


def _steps(steps: Any) -> tuple[Step, ...]:
    return tuple((_text(kind), tuple(int(number) for number in numbers)) for kind, numbers in steps)
