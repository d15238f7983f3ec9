"""JSON whose objects know their line, read within limits on size, depth and number of values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from netweave.errors import ReadError
from netweave.files.source import is_file, read_bytes

MAX_JSON_BYTES = 32 << 20
"""A longer text is refused before it is parsed."""

MAX_JSON_DEPTH = 100
"""Objects and lists may lie at most this deep in each other."""

MAX_JSON_VALUES = 2_000_000
"""At most so many opening brackets and commas: what bounds time and memory."""

T = TypeVar("T")

# An unterminated string matches to the end of the text, so that one pass over hostile text stays linear.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_KIND_NAMES = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}


class JsonObject(dict[str, Any]):
    """An object of a JSON file.

    Attributes:
        file: Name of the file as given.
        line: Line of its opening bracket, counted from 1.
    """

    __slots__ = ("file", "line")

    def __init__(self, items: list[tuple[str, Any]], *, file: str, line: int) -> None:
        super().__init__(items)
        self.file = file
        self.line = line

    @property
    def place(self) -> str:
        """The place of the object, for messages."""
        return f"{self.file}:{self.line}"

    def field(self, name: str, kind: type[T], default: T | None = None) -> T:
        """Return the value of a field, checked for its type.

        Args:
            name: Name of the field.
            kind: ``dict`` (a JsonObject is returned), ``list``, ``str`` or ``int``.
            default: Value where the field is missing; None if it must be there.

        Raises:
            ReadError: The field is missing or of another type.
        """
        if name not in self and default is not None:
            return default
        if name not in self:
            raise ReadError(f"expected {_KIND_NAMES[kind]} {name!r}, found none", place=self.place)
        return checked(self[name], kind, what=repr(name), place=self.place)


def checked(value: Any, kind: type[T], *, what: str, place: str) -> T:
    """Return ``value`` if it is of the type ``kind`` (True and False are no numbers).

    Raises:
        ReadError: It is of another type; the message says ``what`` it is and its ``place``.
    """
    if isinstance(value, kind) and not isinstance(value, bool):
        return value
    raise ReadError(f"{what} is {_shown(value)}, expected {_KIND_NAMES[kind]}", place=place)


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, every object as a ``JsonObject``.

    Raises:
        ReadError: The file cannot be read, is no JSON, or is beyond the limits above.
    """
    if is_file(path):
        _check_length(path.stat().st_size, str(path))
    return parse_json(read_bytes(path), file=str(path))


def parse_json(content: bytes, *, file: str, allow_nan: bool = False, unique_keys: bool = False) -> Any:
    """Return the value of a JSON text, every object as a ``JsonObject``.

    Args:
        content: The text in UTF-8.
        file: Its name, for messages and places.
        allow_nan: Whether NaN and Infinity are numbers, as in what Python writes.
        unique_keys: Refuse an object that has a key twice; without, the last one counts.

    Raises:
        ReadError: It is no JSON, or is beyond the limits above.
    """
    _check_length(len(content), file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not a JSON text: byte {error.start} is not UTF-8", place=file) from error
    lines = _closing_lines(text, file)

    def make(items: list[tuple[str, Any]]) -> JsonObject:
        made = JsonObject(items, file=file, line=next(lines))
        if unique_keys and len(made) < len(items):
            keys = [key for key, _ in items]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ReadError(f"has the key {twice!r:.200} twice, expected it once", place=made.place)
        return made

    def refuse(name: str) -> Any:
        raise ReadError(f"{name} is not a JSON number", place=file)

    try:
        value = json.loads(text, object_pairs_hook=make, parse_constant=float if allow_nan else refuse)
    except json.JSONDecodeError as error:
        raise ReadError(f"is not valid JSON: {error.msg}", place=f"{file}:{error.lineno}") from error
    except ValueError as error:
        raise ReadError(f"is not readable JSON: {error}", place=file) from error
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ReadError("holds half of a surrogate pair, which is no character", place=file) from error
    return value


def _check_length(num_bytes: int, file: str) -> None:
    if num_bytes > MAX_JSON_BYTES:
        raise ReadError(f"has {num_bytes:,} bytes of JSON, expected at most {MAX_JSON_BYTES:,}", place=file)


def _closing_lines(text: str, file: str) -> Iterator[int]:
    """Return the lines on which objects open, in the order in which they close: the parser's order."""
    opened: list[int] = []
    closed: list[int] = []
    line, last, count = 1, 0, 0
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "[{,":
            count += 1
        if sign in "[{":
            line, last = line + text.count("\n", last, match.start()), match.start()
            opened.append(line if sign == "{" else 0)
        elif sign in "]}" and opened:
            closed.append(opened.pop())
        if len(opened) > MAX_JSON_DEPTH:
            raise ReadError(f"is nested more than {MAX_JSON_DEPTH} deep", place=f"{file}:{line}")
        if count > MAX_JSON_VALUES:
            raise ReadError(f"holds more than {MAX_JSON_VALUES:,} values", place=f"{file}:{line}")
    return (line for line in closed if line)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
