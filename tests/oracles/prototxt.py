"""A small reader and writer of protobuf's text format: enough for Caffe's files, without a schema.

A message is a list of (field, value) pairs in the order of the file; a value is a message, or a scalar as
it was written (strings keep their quotes), so that what is written back says the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    from collections.abc import Iterator

Message = list[tuple[str, Union[str, "Message"]]]

TOKEN = re.compile(r"""#[^\n]*|\s+|("[^"\n]*"|'[^'\n]*')|([{}<>\[\]:,;])|([^\s{}<>\[\]:,;"'#]+)""")


def parse(text: str) -> Message:
    """Return the message that a text holds."""
    tokens = [token for token in _tokens(text) if token not in {",", ";"}]
    message, end = _message(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"stray {tokens[end]!r}")
    return message


def dump(message: Message, indent: int = 0) -> str:
    """Return a message as text."""
    pad = "  " * indent
    lines = [
        f"{pad}{field}: {value}"
        if isinstance(value, str)
        else f"{pad}{field} {{\n{dump(value, indent + 1)}{pad}}}"
        for field, value in message
    ]
    return "".join(line + "\n" for line in lines)


def every(message: Message, field: str) -> list:
    """Return all values of a repeated field."""
    return [value for name, value in message if name == field]


def last(message: Message, field: str, default: str | Message = "") -> Any:
    """Return the last value of a field."""
    found = every(message, field)
    return found[-1] if found else default


def word(value: str) -> str:
    """Return a scalar without quotes."""
    return value[1:-1] if value[:1] in {'"', "'"} else value


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = TOKEN.match(text, position)
        if not match:
            raise ValueError(f"cannot read {text[position : position + 20]!r}")
        position = match.end()
        token = match.group(1) or match.group(2) or match.group(3)
        if token:
            yield token


def _message(tokens: list[str], at: int) -> tuple[Message, int]:
    message: Message = []
    while at < len(tokens) and tokens[at] not in {"}", ">"}:
        field, at = tokens[at], at + 1
        if tokens[at] == ":":
            at += 1
        if tokens[at] in {"{", "<"}:
            value, at = _message(tokens, at + 1)
            message.append((field, value))
            at += 1
        elif tokens[at] == "[":
            end = tokens.index("]", at)
            message.extend((field, token) for token in tokens[at + 1 : end])
            at = end + 1
        else:
            message.append((field, tokens[at]))
            at += 1
    return message, at
