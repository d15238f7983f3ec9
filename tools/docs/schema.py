"""The JSON Schema of saved comparisons, made of the classes that they are written from."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from typing import Any

from netweave.comparison import Comparison
from netweave.comparison.result.report import VERSION, NetRecord
from netweave.comparison.result.saved import NAMES
from netweave.graph import Layer, LayerTable

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}

NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf", "nan"]}]}
"""JSON has no infinity: tensors of unlike sizes are ``inf`` apart."""

PLAIN = {bool: {"type": "boolean"}, int: {"type": "integer"}, float: NUMBER, str: TEXT, Any: {}}

CAUSE: Schema = {
    "type": "object",
    "description": "A difference with all places where it was made.",
    "properties": {
        "text": TEXT,
        "fix": TEXT,
        "latent": {"type": "boolean"},
        "places": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": dict.fromkeys(("layer_a", "layer_b", "place_a", "place_b"), TEXT),
                "required": ["layer_a", "layer_b", "place_a", "place_b"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["text", "fix", "latent", "places"],
    "additionalProperties": False,
}


def page() -> str:
    """Return the schema as the text of a file."""
    definitions: dict[str, Schema] = {}
    own = _object(Comparison, definitions, without={"a", "b"})
    net = _of(NetRecord, definitions)
    own["properties"] = {
        "version": {"const": VERSION, "description": "Version of this form."},
        "a": net,
        "b": net,
        **own["properties"],
        "mark": TEXT,
        "exit_status": {"enum": [0, 1, 3, 4]},
        "headline": {**TEXT, "description": "The verdict in at most twenty words."},
        "causes": {"type": "array", "items": CAUSE},
    }
    own["required"] = list(own["properties"])
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A comparison of two nets, as netweave compare --json writes it",
        **own,
        "$defs": dict(sorted(definitions.items())),
    }
    return json.dumps(schema, indent=1) + "\n"


def _object(kind: type, definitions: dict[str, Schema], *, without: typing.Collection[str] = ()) -> Schema:
    hints = typing.get_type_hints(kind, localns=NAMES)
    fields = [
        field.name
        for field in dataclasses.fields(kind)
        if field.metadata.get("json", True) and field.name not in without
    ]
    return {
        "type": "object",
        "description": (kind.__doc__ or "").partition("\n")[0],
        "properties": {name: _of(hints[name], definitions) for name in fields},
        "required": fields,
        "additionalProperties": False,
    }


def _of(hint: Any, definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a type; a dataclass becomes a definition."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in PLAIN:
        return dict(PLAIN[hint])
    if hint is type(None):
        return {"type": "null"}
    if origin in {types.UnionType, typing.Union}:
        return {"anyOf": [_of(argument, definitions) for argument in arguments]}
    if hint is LayerTable:
        return {"type": "array", "items": _of(Layer, definitions)}
    if origin is tuple and arguments[-1] is not Ellipsis:
        items = [_of(argument, definitions) for argument in arguments]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is not None:  # a mapping
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if issubclass(hint, enum.Enum):
        return {"enum": [member.value for member in hint]}
    if hint.__name__ not in definitions:
        definitions[hint.__name__] = {}  # it may name itself
        definitions[hint.__name__] = _object(hint, definitions)
    return {"$ref": f"#/$defs/{hint.__name__}"}
