"""Protocol buffers' text format: read with the line of every field, and written.

google.protobuf keeps no lines. Reading accepts what ``google.protobuf.text_format`` accepts for a known
schema, and refuses what it refuses: unknown fields, a field twice that may stand once, numbers out of range.
Rules: the language specification at protobuf.dev/reference/protobuf/textformat-spec.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn

import numpy as np

from netweave.errors import ReadError
from netweave.files.protobuf import MAX_MESSAGES, Field, Message, Schema

MAX_CHARS = 8 << 20
"""Longer texts are refused: a net is some kilobytes."""

MAX_UNKNOWN = 20
"""So many unknown fields are named at once."""

MAX_DEPTH = 64
"""Messages inside messages beyond this depth are refused."""

# a token and what is skipped before it are one match, since the parser spends most of its time here; a match
# that ends with "skip" stands where no token begins
_TOKEN = re.compile(
    r"""(?P<skip>(?:\s++|\#[^\n]*+)*+)
    (?:(?P<name>[A-Za-z_]\w*+)
    |(?P<number>0[xX][0-9a-fA-F]++|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fF]?)
    |(?P<string>"(?:[^"\\\n]++|\\.)*+"|'(?:[^'\\\n]++|\\.)*+')
    |(?P<mark>[-{}<>\[\]:;,])
    |(?P<end>\Z))?""",
    re.VERBOSE | re.ASCII,
)
_EXTENSION = re.compile(r"\s*([A-Za-z_][\w./]*+)\s*\]", re.ASCII)
_ESCAPE = re.compile(
    rb"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL
)
_LETTERS = {
    b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v",
}  # fmt: skip
_RANGES = {
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1),
}
_BOOLS = dict.fromkeys(("true", "True", "t", "1"), True) | dict.fromkeys(("false", "False", "f", "0"), False)
_END = "end of file"


def parse_text(
    content: bytes, schema: Schema, name: str, *, place: str, lenient: Container[str] = ()
) -> Message:
    """Return the message that a text holds.

    Args:
        content: The text, in UTF-8.
        schema: The kinds of messages.
        name: The kind of message.
        place: Name of the file, for errors.
        lenient: Kinds of messages whose unknown fields are kept as errors for later (``Message.unknown``).

    Raises:
        ReadError: The text cannot be parsed, or holds a field that the schema does not know.
    """
    if len(content) > MAX_CHARS:
        raise ReadError(f"has {len(content):,} bytes, expected at most {MAX_CHARS:,}", place=place)
    text = content.decode("utf-8", "backslashreplace").removeprefix("\ufeff")
    parser = _Parser(text, place, lenient)
    message = Message(schema.messages[name], 1)
    parser.fields(message, _END, depth=0)
    if parser.refused:
        raise unknown_fields(parser.refused)
    return message


def unknown_fields(errors: Sequence[ReadError]) -> ReadError:
    """Return the errors of unknown fields as one, so that a file can be mended at once.

    >>> same = [ReadError("unknown field 'a' in Node", place=f"t:{line}") for line in (2, 5, 9)]
    >>> str(unknown_fields([*same, ReadError("unknown field 'b' in Node", place="t:7")]))
    "t:2: unknown field 'a' in Node (also on lines 5, 9); line 7: unknown field 'b' in Node"
    """
    lines: dict[str, list[str]] = {}
    for error in errors:
        lines.setdefault(error.message, []).append((error.place or "").rpartition(":")[2])
    parts: list[str] = []
    for text, (first, *others) in list(lines.items())[:MAX_UNKNOWN]:
        also = f" (also on line{'s' * (len(others) > 1)} {', '.join(others)})" if others else ""
        parts.append((f"line {first}: " if parts else "") + text + also)
    rest = len(lines) - len(parts)
    parts += [f"and {rest} more"] if rest else []
    return ReadError("; ".join(parts), place=errors[0].place)


@lru_cache(maxsize=4)  # the readers of several formats ask for the same head, and again when they read
def field_names(text: str) -> tuple[str, ...]:
    """Return the names of the outermost fields of a text, as far as it can be split into tokens.

    >>> field_names('name: "x" layer { name: "y" } # end')
    ('name', 'layer')
    """
    names, depth, before = [], 0, ""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        if kind in {"skip", "end"}:
            break
        name, before = before, match["name"] if kind == "name" and not depth else ""
        if kind == "mark":
            mark = match["mark"]
            if name and mark in ":{<":
                names.append(name)
            depth += (mark in "{<") - (mark in "}>")
    return tuple(names)


class _Parser:
    """A text as tokens, one ahead."""

    def __init__(self, text: str, place: str, lenient: Container[str]) -> None:
        self._text = text
        self._lenient = lenient
        self._place = place
        self.refused: list[ReadError] = []
        self._next = 0
        self._num_messages = 0
        self.line = 1
        self.kind = ""
        self.token = ""
        self._advance()

    def fields(self, message: Message, end: str, *, depth: int) -> None:
        """Parse fields into ``message`` up to the token ``end``."""
        if depth > MAX_DEPTH:
            self.fail(f"messages are nested more than {MAX_DEPTH} deep")
        while self.token != end or self.kind == "string":
            if self.kind == "end":
                self.fail(f"the file ends inside {message.type.name}, which begins on line {message.line}")
            self._field(message, depth=depth)
            self._skip(";") or self._skip(",")
        if end != _END:
            self._advance()

    def _field(self, message: Message, *, depth: int) -> None:
        if self.token == "[" and self.kind == "mark":
            self._extension(message)
        name, line = self.token, self.line
        if self.kind != "name":
            self.fail(f"found {name!r}, expected the name of a field of {message.type.name}")
        known = message.type.fields.get(name)
        if known is None:
            self._unknown(message)
            return
        if name in message and not known.repeated:
            self.fail(
                f"field {name!r} appears again, first on line {message.line_of(name)}; it may stand once"
            )
        self._advance()
        colon = self._skip(":")
        if not colon and known.type != "message":
            self.fail(f"found {self.token!r} after {name!r}, expected ':'")
        if known.repeated and self._skip("["):
            self._list(message, known, depth=depth)
        else:
            message.put(name, self._value(message, known, depth=depth), line)

    def _extension(self, message: Message) -> None:
        """Take ``[package.name]``, a field that others have added to a kind of message, as one name."""
        match = _EXTENSION.match(self._text, self._next)
        if match is None:
            self.fail(f"found '[', expected the name of a field of {message.type.name}")
        self.kind, self.token, self._next = "name", f"[{match[1]}]", match.end()

    def _unknown(self, message: Message) -> None:
        """Skip an unknown field and note it, for later where the kind of message is lenient."""
        schema = message.type.schema
        known = "" if self.token.startswith("[") else _nearest(self.token, message.type.fields, schema)
        text = f"unknown field {self.token!r} in {message.type.name}{known}"
        noted = message.unknown if message.type.name in self._lenient else self.refused
        noted.append(ReadError(text, place=f"{self._place}:{self.line}"))
        self._advance()
        self._skip(":")
        self._skip("-")
        depth = 0
        while True:
            closes = self.token in {"}", ">", "]"}
            if self.kind == "end" or (closes and not depth):
                raise unknown_fields([*self.refused, *message.unknown])
            depth += (self.token in {"{", "<", "["}) - closes
            self._advance()
            if depth <= 0 and self.kind != "string":
                return

    def _list(self, message: Message, known: Field, *, depth: int) -> None:
        while not self._skip("]"):
            line = self.line
            message.put(known.name, self._value(message, known, depth=depth), line)
            if not self._skip(",") and self.token != "]":
                self.fail(f"found {self.token!r} in the list of {known.name!r}, expected ',' or ']'")

    def _value(self, message: Message, known: Field, *, depth: int) -> Any:
        if known.type == "message":
            return self._message(message, known, depth=depth)
        if known.type in {"string", "bytes"}:
            return self._string(known)
        sign = "-" if self._skip("-") else ""
        text, kind, line = sign + self.token, self.kind, self.line
        if kind not in {"name", "number"}:
            self.fail(f"found {text!r} as the value of {known.name!r}, expected {_wanted(known)}")
        if known.type == "enum":
            value = _enum(text, known, message.type.schema)
        elif known.type == "bool":
            value = _BOOLS.get(text)
        else:
            value = _real(text) if known.type in {"float", "double"} else _integer(text, known.type)
        if value is None:
            schema = message.type.schema
            hint = _nearest(text, schema.enums[known.of], schema) if known.type == "enum" else ""
            self.fail(f"found {text} as the value of {known.name!r}, expected {_wanted(known)}{hint}", line)
        self._advance()
        return value

    def _message(self, owner: Message, known: Field, *, depth: int) -> Message:
        made = owner.empty(known.name, self.line)
        end = {"{": "}", "<": ">"}.get(self.token)
        if end is None or self.kind == "string":
            self.fail(f"found {self.token!r} after {known.name!r}, expected '{{'")
        self._num_messages += 1
        if self._num_messages > MAX_MESSAGES:
            self.fail(f"the text has more than {MAX_MESSAGES:,} messages")
        self._advance()
        self.fields(made, end, depth=depth + 1)
        return made

    def _string(self, known: Field) -> str | bytes:
        if self.kind != "string":
            self.fail(f'found {self.token!r} as the value of {known.name!r}, expected a string in "quotes"')
        parts = []
        while self.kind == "string":
            parts.append(self.token[1:-1].encode("utf-8", "surrogatepass"))
            self._advance()
        content = b"".join(_ESCAPE.sub(_unescape, part) for part in parts)
        return content if known.type == "bytes" else content.decode("utf-8", "backslashreplace")

    def fail(self, message: str, line: int | None = None) -> NoReturn:
        """Raise an error; fields that were unknown before may be its cause, and come first."""
        if self.refused:
            raise unknown_fields(self.refused)
        raise ReadError(message, place=f"{self._place}:{line or self.line}")

    def _skip(self, token: str) -> bool:
        if self.token == token and self.kind == "mark":
            self._advance()
            return True
        return False

    def _advance(self) -> None:
        match = _TOKEN.match(self._text, self._next)
        assert match is not None, "every part of it may be empty"
        kind, start = match.lastgroup or "", match.end("skip")
        if start > self._next:  # tokens hold no line breaks
            self.line += self._text.count("\n", self._next, start)
        if kind == "skip":
            rest = self._text[start : start + 20].split("\n")[0]
            self.fail(f"cannot read {rest!r}; is this a text file, and are its quotes closed?")
        self.kind, self.token, self._next = kind, match[kind] or _END, match.end()


def _nearest(name: str, known: Any, schema: Schema) -> str:
    similar = [schema.synonyms[name]] if schema.synonyms.get(name) in known else []
    similar = (
        similar or difflib.get_close_matches(name, list(known), n=1) or [key for key in known if name in key]
    )
    return f"; did you mean {similar[0]!r}?" if similar else ""


def _wanted(known: Field) -> str:
    if known.type == "enum":
        return f"one of {known.of.rpartition('.')[2]}"
    if known.type in _RANGES:
        low, high = _RANGES[known.type]
        return f"a whole number from {low} to {high}"
    return {"bool": "true or false"}.get(known.type, "a number")


def _enum(text: str, known: Field, schema: Schema) -> Any:
    values = schema.enums[known.of]
    if text in values:
        return text
    number = _integer(text, "int32")
    return schema.enum_value(known.of, number) if number is not None and number in values.values() else None


def _integer(text: str, kind: str) -> int | None:
    digits = text.removeprefix("-")
    base = 16 if digits[:2] in {"0x", "0X"} else 8 if digits[:1] == "0" and len(digits) > 1 else 10
    try:
        value = int(text, base)
    except ValueError:
        return None
    low, high = _RANGES[kind]
    return value if low <= value <= high else None


def _real(text: str) -> float | None:
    number = text.lower()
    if number.removeprefix("-") not in {"inf", "infinity", "nan"}:
        number = number.removesuffix("f")
    try:
        return float(number)
    except ValueError:
        return None


def _unescape(match: re.Match[bytes]) -> bytes:
    hexadecimal, octal, short, long, letter = match.groups()
    if hexadecimal:
        return bytes([int(hexadecimal, 16)])
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    if short or long:
        number = int(short or long, 16)
        return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else b"?"
    return _LETTERS.get(letter, letter)


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
                yield f"{indent}{key}: {_value_text(item, known)}\n"
            else:
                yield f"{indent}{key} {{\n"
                yield from _lines(schema, known.of, item, indent=f"{indent}  ")
                yield f"{indent}}}\n"


def _value_text(value: Any, known: Field) -> str:
    """Return a value; a number has no more digits than its type holds."""
    if known.type in {"string", "bytes"}:
        return '"' + "".join(_ESCAPES.get(letter, letter) for letter in value) + '"'
    if known.type == "bool":
        return str(bool(value)).lower()
    if known.type == "float":
        return str(np.float32(value)).removesuffix(".0")
    return str(value)
