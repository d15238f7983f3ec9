r"""FlatBuffers without generated code: a compact schema, and a reader that trusts no offset of a file.

The format's own verifier is not in its Python package (docs/decisions/0230).

A schema is written as::

    table Pool2DOptions
      padding Padding; stride_w int32; filter_width int32 =1; -; -; weights float32[]
    enum Padding
      SAME=0 VALID=1
    union Options
      Pool2DOptions=1

Fields stand in the order of their slots; ``-`` is a slot that is not read. ``[]`` is a vector, ``=`` a
default. A field whose type is a union reads the table that the number in the slot before it names.

The form is that of https://flatbuffers.dev/internals: little-endian, tables of offsets that count from where
they stand. The official Python runtime follows them unchecked, which gives other bytes of the file, or
errors without a place, where an offset is damaged; here each is held against the size of the file.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from netweave.errors import ReadError

MAX_ITEMS = 2_000_000
"""Entries of lists of tables in one file: tables may share a list, so that a small file can name many."""

_SCALARS = {
    "bool": "<?",
    "int8": "<b",
    "uint8": "<B",
    "int16": "<h",
    "uint16": "<H",
    "int32": "<i",
    "uint32": "<I",
    "int64": "<q",
    "uint64": "<Q",
    "float32": "<f",
    "float64": "<d",
}
_FIELD = re.compile(r"(?P<name>\w+) (?P<type>\w+)(?P<vector>\[\])?(?: =(?P<default>\S+))?")

Record = dict[str, Any]
"""A table: the values of all fields of its schema by name. A table that is left out is None, a vector of
numbers an array, another vector a list, an enumeration its name."""


@dataclass(frozen=True, slots=True)
class FlatField:
    """One field of a table.

    Attributes:
        slot: Its place in the table of offsets.
        name: Its name.
        type: A scalar, ``string``, or the name of an enumeration, a union or a table.
        is_vector: Whether it holds several.
        default: Its value where a file leaves it out.
    """

    slot: int
    name: str
    type: str
    is_vector: bool = False
    default: Any = None


class FlatSchema:
    """Tables, enumerations and unions that refer to one another.

    Args:
        text: The notation.
    """

    def __init__(self, text: str) -> None:
        self.tables: dict[str, tuple[FlatField, ...]] = {}
        self.enums: dict[str, dict[int, str]] = {}
        self.unions: dict[str, dict[int, str]] = {}
        for block in re.split(r"\n(?=table |enum |union )", text.strip()):
            head, _, body = block.partition("\n")
            kind, name = head.split()
            if kind == "table":
                items = [item.strip() for item in body.replace("\n", " ").split(";")]
                self.tables[name] = tuple(
                    _parse_field(slot, item) for slot, item in enumerate(items) if item not in {"", "-"}
                )
            else:
                pairs = (item.split("=") for item in body.split())
                numbers = {int(number): word for word, number in pairs}
                (self.enums if kind == "enum" else self.unions)[name] = numbers

    def decode(self, table: str, content: bytes, *, place: str) -> Record:
        """Return the root table of a file.

        Arrays are views of ``content``; nothing that is stored is copied.

        Args:
            table: Its type.
            content: The file.
            place: Name of the file, for errors.

        Raises:
            ReadError: An offset or a length leads out of the file, or the file names too many tables.
        """
        decoder = _Decoder(self, content, place)
        return decoder.table(table, decoder.offset(0))


def _parse_field(slot: int, text: str) -> FlatField:
    match = _FIELD.fullmatch(text)
    assert match is not None, text
    default = match["default"]
    number = None if default is None else float(default) if "." in default else int(default)
    return FlatField(slot, match["name"], match["type"], match["vector"] is not None, number)


class _Decoder:
    """Reads the tables of one file, each once, however many others refer to it."""

    def __init__(self, schema: FlatSchema, content: bytes, place: str) -> None:
        self.schema = schema
        self.content = content
        self.place = place
        self.num_items = 0
        self.decoded: dict[tuple[str, int], Record] = {}

    def table(self, name: str, position: int) -> Record:
        """Return the table of a type at a position."""
        key = (name, position)
        if key not in self.decoded:
            slots = self._slots(position)
            record: Record = {}
            self.decoded[key] = record  # before its fields, so that no circle of tables has no end
            for field in self.schema.tables[name]:
                at = slots[field.slot] if field.slot < len(slots) else 0
                record[field.name] = self._value(field, position + at if at else None, slots, position)
        return self.decoded[key]

    def offset(self, position: int) -> int:
        """Return the position that an offset leads to."""
        return position + int(self._scalar("uint32", position))

    def _slots(self, position: int) -> tuple[int, ...]:
        """Return the offsets of a table's fields, 0 for those that are left out."""
        start = position - int(self._scalar("int32", position))
        num_bytes = int(self._scalar("uint16", start))
        count = max(num_bytes // 2 - 2, 0)
        self._check(start + 4, 2 * count)
        return struct.unpack_from(f"<{count}H", self.content, start + 4)

    def _value(self, field: FlatField, at: int | None, slots: tuple[int, ...], position: int) -> Any:
        kind = field.type
        if kind in self.schema.unions:
            return self._union(field, at, slots, position)
        if field.is_vector:
            return self._vector(kind, at)
        if kind in self.schema.enums:
            number = field.default or 0 if at is None else int(self._scalar("int8", at))
            return self.schema.enums[kind].get(number, str(number))
        if kind in _SCALARS:
            zero = 0.0 if kind.startswith("float") else kind != "bool" and 0
            return (
                (zero if field.default is None else field.default) if at is None else self._scalar(kind, at)
            )
        if at is None:
            return "" if kind == "string" else None
        return self._string(self.offset(at)) if kind == "string" else self.table(kind, self.offset(at))

    def _default(self, field: FlatField) -> int | float | bool:
        if field.type == "bool":
            return bool(field.default)
        return float(field.default or 0) if field.type.startswith("float") else int(field.default or 0)

    def _union(
        self, field: FlatField, at: int | None, slots: tuple[int, ...], position: int
    ) -> Record | None:
        type_at = slots[field.slot - 1] if field.slot - 1 < len(slots) else 0
        if at is None or not type_at:
            return None
        number = int(self._scalar("uint8", position + type_at))
        name = self.schema.unions[field.type].get(number)
        return None if name is None else self.table(name, self.offset(at))

    def _vector(self, kind: str, at: int | None) -> Any:
        if kind in _SCALARS:
            dtype = np.dtype(_SCALARS[kind])
            if at is None:
                return np.zeros(0, dtype)
            start, count = self._extent(at, dtype.itemsize)
            return np.frombuffer(self.content, dtype, count, start)
        if at is None:
            return []
        start, count = self._extent(at, 4)
        self.num_items += count
        if self.num_items > MAX_ITEMS:
            raise ReadError(f"its lists name more than {MAX_ITEMS:,} tables", place=self.place)
        positions = [self.offset(start + 4 * index) for index in range(count)]
        return [self._string(p) if kind == "string" else self.table(kind, p) for p in positions]

    def _string(self, position: int) -> str:
        count = int(self._scalar("uint32", position))
        self._check(position + 4, count)
        return self.content[position + 4 : position + 4 + count].decode("utf-8", "backslashreplace")

    def _extent(self, at: int, item_bytes: int) -> tuple[int, int]:
        """Return where the entries of a vector begin, and how many there are."""
        position = self.offset(at)
        count = int(self._scalar("uint32", position))
        self._check(position + 4, count * item_bytes)
        return position + 4, count

    def _scalar(self, kind: str, position: int) -> int | float | bool:
        form = _SCALARS[kind]
        self._check(position, struct.calcsize(form))
        value: int | float | bool = struct.unpack_from(form, self.content, position)[0]
        return value

    def _check(self, position: int, num_bytes: int) -> None:
        if not 0 <= position <= len(self.content) - num_bytes:
            raise ReadError(
                f"refers to {num_bytes:,} bytes at byte {position:,} of {len(self.content):,}; was the file "
                "copied whole?",
                place=self.place,
            )
