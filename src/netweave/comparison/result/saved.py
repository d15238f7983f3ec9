"""Comparisons in files: what is saved can be opened and shown again, without the nets."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from pathlib import Path
from typing import Any

from netweave.comparison.result.comparison import Comparison, Coverage, TensorValues
from netweave.comparison.result.report import VERSION, NetRecord, comparison_to_json
from netweave.errors import ReadError
from netweave.files import read_bytes
from netweave.files.json_text import parse_json
from netweave.files.output_files import write_file
from netweave.graph import Graph, Layer, LayerTable, Origin

NAMES = {"Coverage": Coverage, "Graph": Graph, "NetRecord": NetRecord, "TensorValues": TensorValues}
"""What the annotations of a comparison name and its module does not import."""


def save_comparison(comparison: Comparison, file: str | Path) -> None:
    """Write a comparison as JSON.

    Raises:
        WriteError: The file cannot be written; the old one is untouched.
    """
    write_file(file, json.dumps(comparison_to_json(comparison), indent=1, allow_nan=False))


def open_comparison(file: str | Path) -> Comparison:
    """Read a comparison that was saved.

    Raises:
        ReadError: The file is missing, or no saved comparison, or of another version.
    """
    place = str(file)
    content = parse_json(read_bytes(Path(file)), file=place, allow_nan=True)
    if not isinstance(content, dict) or "verdict" not in content or "groups" not in content:
        raise ReadError(
            "is not a saved comparison, as 'netweave compare A B --json FILE' writes it", place=place
        )
    if content.get("version") != VERSION:
        raise ReadError(f"is of version {content.get('version')!r}, expected {VERSION}", place=place)
    try:
        return _comparison(content)
    except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
        raise ReadError(f"is a damaged comparison: {type(error).__name__}: {error}", place=place) from error


def _comparison(found: dict[str, Any]) -> Comparison:
    hints = typing.get_type_hints(Comparison, localns=NAMES)
    names = [field.name for field in dataclasses.fields(Comparison) if field.name not in {"a", "b"}]
    values: dict[str, Any] = {name: _made(hints[name], found[name]) for name in names if name in found}
    return Comparison(a=_net(found["a"]), b=_net(found["b"]), **values)


def _net(value: dict[str, Any]) -> NetRecord:
    return NetRecord(
        value["name"], value["format"], tuple(value["files"]), LayerTable(map(_layer, value["layers"]))
    )


def _layer(row: dict[str, Any]) -> Layer:
    return Layer(
        key=row["key"],
        name=row["name"],
        type=row["type"],
        settings=row["settings"],
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        parameters=tuple(row["parameters"]),
        origin=Origin(**row["origin"]) if row["origin"] else None,
        call=row["call"],
        definition=Origin(**row["definition"]) if row.get("definition") else None,
        callers=tuple(Origin(**place) for place in row.get("callers", ())),
    )


def _made(hint: Any, value: Any) -> Any:
    """Return a value of the type that a field of a comparison has."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        rest = next(argument for argument in arguments if argument is not type(None))
        return None if value is None else _made(rest, value)
    if origin is tuple:
        inner = arguments if arguments[-1] is not Ellipsis else (arguments[0],) * len(value)
        return tuple(_made(kind, item) for kind, item in zip(inner, value, strict=True))
    if origin is dict:
        return {key: _made(arguments[1], item) for key, item in value.items()}
    if hint is float:
        return float(value)  # what JSON lacks is a string: inf, nan
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if dataclasses.is_dataclass(hint):
        resolved = typing.get_type_hints(hint, localns=NAMES)
        kept = [field.name for field in dataclasses.fields(hint) if field.metadata.get("json", True)]
        hints = {name: resolved[name] for name in kept}
        return hint(**{name: _made(hints[name], item) for name, item in value.items()})  # type: ignore[operator]  # a dataclass, and no instance of one
    return value
