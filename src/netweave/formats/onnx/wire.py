"""Telling an ONNX file by its content: the outermost fields of a protobuf ModelProto."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from netweave.files.onnx.seal import SEAL_FIELD
from netweave.files.wire import BYTES, MAX_VARINT, VARINT, read_varint

if TYPE_CHECKING:
    from pathlib import Path

GRAPH = 7
"""Field of ModelProto that holds the net."""

VERSIONS = frozenset({1, 8})
"""Fields of ModelProto of which a file has at least one: the file version and the opsets."""

FIELDS = {1: VARINT, 2: BYTES, 3: BYTES, 4: BYTES, 5: VARINT, 6: BYTES, GRAPH: BYTES, 8: BYTES, 14: BYTES}
FIELDS |= {20: BYTES, 25: BYTES, 26: BYTES}
FIELDS |= {SEAL_FIELD: BYTES}
"""All fields of ModelProto (onnx.proto, IR version 13) with their wire types, and that of our checksum."""

MAX_FIELDS = 10_000
"""More outermost fields are not looked at."""


def is_model(path: Path) -> bool:
    """Return whether a file's outermost fields are those of an ONNX model; a cut-off graph still counts.

    Only tags and lengths are read, so that the size of the file does not matter.

    Raises:
        OSError: The file cannot be read.
    """
    seen: set[int] = set()
    with path.open("rb") as file:
        num_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        for _ in range(MAX_FIELDS):
            if file.tell() >= num_bytes:
                break
            tag = _varint(file)
            if tag is None or FIELDS.get(tag >> 3) != tag & 7:
                return False
            seen.add(tag >> 3)
            length = _varint(file)
            if length is None:
                break
            if tag & 7 == BYTES:
                file.seek(min(length, num_bytes), os.SEEK_CUR)
    return GRAPH in seen and bool(VERSIONS & seen)


def _varint(file: BinaryIO) -> int | None:
    start = file.tell()
    read = read_varint(file.read(MAX_VARINT))
    if read is None:
        return None
    file.seek(start + read[1])
    return read[0]
