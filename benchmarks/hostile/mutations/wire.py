"""Damage to protocol buffers, whose wire format can be taken apart without a schema.

A message becomes a list of fields; a field of bytes that parses as a message whole is taken for one, so that
damage reaches every depth and the lengths around it stay right (unless one of them is made to lie). Only the
messages on the way to the damage are taken apart: of a graph with thousands of nodes, one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.hostile.mutations.blobs import mutate_bytes

if TYPE_CHECKING:
    import random

VARINTS = (0, 1, 2, 3, 5, 7, 13, 40, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, 2**63,
           2**64 - 1, 2**64 - 2)  # fmt: skip
TEXTS = (b"", b"x", b"\0", b"\xff\xfe", b"../../x", b"y" * 3000, b"Conv", b"9**9**9", b"/", b":0", b"^a",
         b"\x1b[31m")  # fmt: skip
MAX_TRIES = 20
"""Fields that are tried before a message counts as one without messages in it."""

MAX_FIELDS = 4000


@dataclass(slots=True)
class Field:
    """One field of a message.

    Attributes:
        number: Its number.
        kind: Its wire type: 0 varint, 1 eight bytes, 2 bytes or a message, 5 four bytes.
        value: A number, bytes, or the fields of a message.
        length_error: How much too long its length says that it is.
    """

    number: int
    kind: int
    value: int | bytes | list[Field]
    length_error: int = 0


def mutate_wire(rng: random.Random, content: bytes) -> bytes:
    """Return a message with some fields changed, taken out, repeated, moved or nested."""
    if rng.random() < 0.1:
        return mutate_bytes(rng, content)
    fields = parse(content)
    if not fields:
        return mutate_bytes(rng, content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        if message := _some_message(rng, fields):
            _edit(rng, message)
    return encode(fields)


def parse(content: bytes) -> list[Field] | None:
    """Return the fields of a message, inner ones as bytes; None for bytes that are not one as a whole."""
    fields: list[Field] = []
    at, size = 0, len(content)
    while at < size:
        key, at = _varint(content, at)
        number, kind = key >> 3, key & 7
        if at < 0 or not 0 < number < 1 << 29 or len(fields) > MAX_FIELDS:
            return None
        value: int | bytes | list[Field]
        if kind == 0:
            value, at = _varint(content, at)
            if at < 0:
                return None
        elif kind in {1, 5, 2}:
            length = 8 if kind == 1 else 4
            if kind == 2:
                length, at = _varint(content, at)
            if at < 0 or at + length > size:
                return None
            value, at = content[at : at + length], at + length
        else:
            return None
        fields.append(Field(number, kind, value))
    return fields


def encode(fields: list[Field]) -> bytes:
    """Return the bytes of a message."""
    pieces = []
    for field in fields:
        pieces.append(_encoded(field.number << 3 | field.kind))
        if isinstance(field.value, int):
            pieces.append(_encoded(field.value))
            continue
        value = encode(field.value) if isinstance(field.value, list) else field.value
        if field.kind == 2:
            pieces.append(_encoded(max(0, len(value) + field.length_error)))
        pieces.append(value)
    return b"".join(pieces)


def _some_message(rng: random.Random, fields: list[Field]) -> list[Field]:
    """Return a message at any depth; long lists of messages are chosen as one."""
    while rng.random() < 0.75:
        inner = _some_inner(rng, fields)
        if inner is None:
            break
        fields = inner
    return fields


def _some_inner(rng: random.Random, fields: list[Field]) -> list[Field] | None:
    """Take apart a message directly in another, and return it; None if none is there."""
    candidates = [field for field in fields if field.kind == 2 and field.value]
    for _ in range(min(MAX_TRIES, len(candidates))):
        field = candidates.pop(rng.randrange(len(candidates)))
        if isinstance(field.value, bytes):
            field.value = parse(field.value) or field.value
        if isinstance(field.value, list):
            return field.value
    return None


def _edit(rng: random.Random, fields: list[Field]) -> None:
    at = rng.randrange(len(fields))
    field = fields[at]
    match rng.choice(
        ("change",) * 6 + ("delete", "repeat", "move", "number", "kind", "nest", "many", "length")
    ):
        case "change":
            field.value = _changed(rng, field)
        case "delete":
            del fields[at]
        case "repeat":
            fields.insert(rng.randrange(len(fields) + 1), Field(field.number, field.kind, field.value))
        case "move":
            fields.append(fields.pop(at))
        case "number":
            field.number = rng.choice(
                (rng.choice(fields).number, field.number + 1, rng.randrange(1, 40), 2**20)
            )
        case "kind":
            field.kind, field.value = 0, rng.choice(VARINTS)
        case "nest":
            field.kind, field.value = 2, _nested(field, rng.choice((1, 5, 120, 3000)))
        case "many":
            fields[at:at] = [field] * rng.choice((2, 10, 300))
        case "length":
            field.length_error = rng.choice((-1, 1, 2, 7, 1000, 2**31))


def _changed(rng: random.Random, field: Field) -> int | bytes | list[Field]:
    value = field.value
    if isinstance(value, bytes) and field.kind == 2 and value and rng.random() < 0.5:
        value = parse(value) or value
    if isinstance(value, int):
        return rng.choice((rng.choice(VARINTS), value ^ 1 << rng.randrange(8), value + 1, rng.randrange(12)))
    if isinstance(value, list):
        return rng.choice((b"", value[::-1], value[: len(value) // 2]))
    if field.kind != 2:
        return rng.choice((bytes(len(value)), b"\xff" * len(value), rng.randbytes(len(value))))
    if rng.random() < 0.4:
        return mutate_bytes(rng, value)
    return rng.choice((rng.choice(TEXTS), value[:-1], value + b"\0", value * 2, bytes(value[::-1])))


def _nested(field: Field, depth: int) -> bytes:
    """Return a message of the field in itself, as many times."""
    content = b""
    for _ in range(depth):
        content = _encoded(field.number << 3 | 2) + _encoded(len(content)) + content
    return content


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return a number and the place after it; -1 for the place if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(content):
            return 0, -1
        byte = content[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    return 0, -1


def _encoded(value: int) -> bytes:
    value %= 1 << 64
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
