"""The fields of a protobuf message, without a schema: to tell what a file is, or to leave something out.

The form is that of protobuf's encoding guide ("message structure").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import mmap

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""

MAX_VARINT = 10
"""Bytes of the longest number."""


def read_varint(content: bytes | mmap.mmap, position: int = 0) -> tuple[int, int] | None:
    """Return a number of 7 bits a byte and the position behind it; None if it has no end.

    >>> read_varint(bytes([0xAC, 0x02, 0x07])), read_varint(bytes([0x80]))
    ((300, 2), None)
    """
    value = 0
    for place, byte in enumerate(content[position : position + MAX_VARINT]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, position + place + 1
    return None


@dataclass(frozen=True, slots=True)
class Span:
    """The place of a field in a byte string.

    Attributes:
        number: Its number.
        wire_type: Its wire type.
        begin: Where its tag begins.
        held: Where what it holds begins.
        end: Where it ends.
    """

    number: int
    wire_type: int
    begin: int
    held: int
    end: int

    @property
    def num_bytes(self) -> int:
        """Bytes of what it holds."""
        return self.end - self.held


def field_spans(content: bytes | mmap.mmap, message: Span) -> Iterator[Span]:
    """Yield the fields of a message, in order.

    Args:
        content: Bytes that it is a part of.
        message: Where it lies.

    Raises:
        ValueError: It is no whole message.
    """
    position = message.held
    while position < message.end:
        tag = read_varint(content, position)
        held = tag[1] if tag is not None else message.end + 1
        wire_type = tag[0] & 7 if tag is not None else VARINT
        size = {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
        if wire_type in {VARINT, BYTES}:
            number = read_varint(content, held)
            if number is None:
                raise ValueError("a number has no end")
            size, held = (number[0], number[1]) if wire_type == BYTES else (number[1] - held, held)
        end = held + size
        if tag is None or end > message.end or wire_type not in {VARINT, FIXED64, BYTES, FIXED32}:
            raise ValueError(f"no field at byte {position}")
        yield Span(tag[0] >> 3, wire_type, position, held, end)
        position = end


def write_field(number: int, held: bytes) -> bytes:
    """Return a field of bytes.

    >>> write_field(7, b"ab").hex()
    '3a026162'
    """
    return field_head(number, len(held)) + held


def field_head(number: int, num_bytes: int) -> bytes:
    """Return what stands before the bytes that a field holds."""
    return _varint(number << 3 | BYTES) + _varint(num_bytes)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*written, value))


def outer_fields(head: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, wire type and content of the outermost fields that begin in the first bytes of a file.

    A field of a wire type that no message has is the last; one whose tag or length is cut off is left out.
    """
    position = 0
    while position < len(head) and (tag := read_varint(head, position)) is not None:
        number, wire_type, position = tag[0] >> 3, tag[0] & 7, tag[1]
        size = {FIXED64: 8, FIXED32: 4}.get(wire_type, 0)
        if wire_type in {VARINT, BYTES}:
            read = read_varint(head, position)
            if read is None:
                return
            size, position = (0 if wire_type == VARINT else read[0]), read[1]
        yield number, wire_type, head[position : position + size]
        if wire_type not in {VARINT, FIXED64, BYTES, FIXED32}:
            return
        position += size


def leading_fields(content: bytes, *numbers: int) -> list[bytes] | None:
    """Return what the first fields hold, if they have just these numbers and hold bytes, cut off or not."""
    fields = list(islice(outer_fields(content), len(numbers)))
    if [field[:2] for field in fields] != [(number, BYTES) for number in numbers]:
        return None
    return [held for _, _, held in fields]
