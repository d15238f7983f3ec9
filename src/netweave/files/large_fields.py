"""Arrays of a protobuf file that are read straight from the file into memory.

Protobuf would hold each of them twice on the way: in the bytes of the file and in the message. So they are
left out of the message that it parses; a mark in their place says where in the file they lie. ``onnx`` does
the same for ONNX's messages, whose arrays have sizes and types of their own (decision 0187).
"""

from __future__ import annotations

import mmap
import secrets
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.source import check_file, unreadable
from netweave.files.wire import BYTES, Span, field_spans, write_field

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from netweave.files.protobuf import MessageType

MIN_FILE_BYTES = 4 << 20
"""Smaller files are parsed whole."""

MIN_ARRAY_BYTES = 64 << 10
"""Smaller arrays stay in the message."""

MAX_DEPTH = 16
"""Messages in one another that are looked into; Caffe's arrays lie four deep."""

MAX_FIELDS = 100_000
"""Fields of one message that are looked at. Files that store numbers one by one have millions."""

_MARK = secrets.token_bytes(16)
"""What stands before the place of an array; no file can hold it."""

_PLACE = struct.Struct("<QQ")


def without_large_fields(path: Path, kind: MessageType) -> bytes | None:
    """Return the message in a file without its large arrays; None for what is better parsed whole.

    Args:
        path: The file.
        kind: The kind of message that it holds.

    Raises:
        ReadError: The file cannot be read.
    """
    if check_file(path) < MIN_FILE_BYTES:
        return None
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _slim(content, Span(0, BYTES, 0, 0, len(content)), kind, depth=0)
    except OSError as error:
        raise unreadable(str(path), error) from error
    except ValueError:
        return None  # no message: parsing it says what is wrong


def read_chunks(chunks: Sequence[bytes], dtype: np.dtype[Any], path: Path | None) -> np.ndarray:
    """Return the array that some bytes hold one behind the other, or a file in the place of which they stand.

    Args:
        chunks: The bytes as the message has them.
        dtype: Type of the numbers.
        path: The file that large ones were left in; None if there is none.

    Raises:
        ReadError: The file has changed since.
    """
    if path is None or not any(chunk.startswith(_MARK) for chunk in chunks):
        content = b"".join(chunks)
        return np.frombuffer(content, dtype, count=len(content) // dtype.itemsize)
    return np.concatenate([_read_chunk(chunk, dtype, path) for chunk in chunks])


def _read_chunk(chunk: bytes, dtype: np.dtype[Any], path: Path) -> np.ndarray:
    if not chunk.startswith(_MARK):
        return np.frombuffer(chunk, dtype, count=len(chunk) // dtype.itemsize)
    offset, num_bytes = _PLACE.unpack_from(chunk, len(_MARK))
    count = num_bytes // dtype.itemsize
    try:
        array = np.fromfile(path, dtype, count, offset=offset)
    except OSError as error:
        raise unreadable(str(path), error) from error
    if array.size != count:
        raise ReadError("was changed while it was read", place=str(path))
    return array


def _slim(content: mmap.mmap, message: Span, kind: MessageType, *, depth: int) -> bytes:
    """Return a message without the large arrays in it."""
    known = {known.number: known for known in kind.fields.values()}
    parts = []
    for number, span in enumerate(field_spans(content, message)):
        if number == MAX_FIELDS:
            raise ValueError("numbers are stored one by one")
        own = known.get(span.number)
        is_large = span.wire_type == BYTES and span.num_bytes >= MIN_ARRAY_BYTES
        if is_large and own is not None and own.packed:
            place = _MARK + _PLACE.pack(span.held, span.num_bytes)
            parts.append(write_field(span.number, place))
        elif is_large and own is not None and own.type == "message" and depth < MAX_DEPTH:
            inner = _slim(content, span, kind.schema.messages[own.of], depth=depth + 1)
            parts.append(write_field(span.number, inner))
        else:
            parts.append(content[span.begin : span.end])
    return b"".join(parts)
