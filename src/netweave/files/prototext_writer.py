"""Messages as text of protocol buffers: the other way of ``prototext``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from netweave.files.protobuf import Field, Schema

_ESCAPES = {chr(code): f"\\{code:03o}" for code in (*range(32), 127)} | {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def format_text(schema: Schema, name: str, values: Mapping[str, Any]) -> str:
    """Return a message as text, its fields in the order given.

    Args:
        schema: The kinds of messages.
        name: The kind of message.
        values: Its fields by name, as ``Schema.encode`` takes them.
    """
    return "".join(_lines(schema, name, values, indent=""))


def _lines(schema: Schema, name: str, values: Mapping[str, Any], *, indent: str) -> Iterator[str]:
    for key, value in values.items():
        known = schema.messages[name].fields[key]
        for item in value if known.repeated else [value]:
            if known.type != "message":
                yield f"{indent}{key}: {_text(item, known)}\n"
            else:
                yield f"{indent}{key} {{\n"
                yield from _lines(schema, known.of, item, indent=f"{indent}  ")
                yield f"{indent}}}\n"


def _text(value: Any, known: Field) -> str:
    """Return a value; a number has no more digits than its type holds."""
    if known.type in {"string", "bytes"}:
        return '"' + "".join(_ESCAPES.get(letter, letter) for letter in value) + '"'
    if known.type == "bool":
        return str(bool(value)).lower()
    if known.type == "float":
        return str(np.float32(value)).removesuffix(".0")
    return str(value)
