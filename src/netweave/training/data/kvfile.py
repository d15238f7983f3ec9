"""SINGA's stores: files of keys and values, and the records that are the values.

A tuple is the length of its key and the key, the length of its value and the value; lengths are 64 bits, low
byte first (``kvfile.cc`` of 0.2 and 0.3, ``shard.cc`` of 0.1). A value is a ``RecordProto``, in 0.1 inside
of a ``Record``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from netweave.errors import ReadError
from netweave.formats.singa.schema import singa_schema
from netweave.graph.costs import MAX_AXES

if TYPE_CHECKING:
    from netweave.training.data.byte_file import ByteFile, Span

LENGTH = struct.Struct("<Q")

MAX_KEY_BYTES = 1024
"""SINGA's keys are numbers and file names; a longer one is taken for damage."""

SHARD = "shard.dat"
"""The file of a store that is a folder."""


def is_kvfile(start: bytes, num_bytes: int) -> bool:
    """Return whether a file is a store: by its first bytes, and its size."""
    if len(start) < LENGTH.size:
        return False
    key_bytes = LENGTH.unpack_from(start)[0]
    if not 0 < key_bytes <= MAX_KEY_BYTES or len(start) < 2 * LENGTH.size + key_bytes:
        return False
    value_bytes = LENGTH.unpack_from(start, LENGTH.size + key_bytes)[0]
    return bool(2 * LENGTH.size + key_bytes + value_bytes <= num_bytes)


def scan(file: ByteFile) -> Iterator[tuple[Span, Span]]:
    """Yield where the key and the value of each tuple lie.

    Raises:
        ReadError: The file is cut short, or is no such store.
    """
    at = 0
    while at < file.num_bytes:
        key = _span(file, at, "key", MAX_KEY_BYTES)
        value = _span(file, sum(key), "value", file.num_bytes)
        yield key, value
        at = sum(value)


def _span(file: ByteFile, at: int, what: str, most: int) -> Span:
    head = file.read(at, LENGTH.size)
    num_bytes = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else 0
    start = at + LENGTH.size
    if len(head) < LENGTH.size or start + min(num_bytes, most) > file.num_bytes:
        raise ReadError(
            f"ends inside of the {what} at byte {at:,}; was it copied whole, and closed by its writer?",
            place=file.name,
        )
    if num_bytes > most:
        raise ReadError(
            f"the {what} at byte {at:,} would have {num_bytes:,} bytes, expected at most {most:,}; it is no "
            "kvfile or shard of SINGA, or damaged",
            place=file.name,
        )
    return start, num_bytes


def frame(key: bytes, value: bytes) -> bytes:
    """Return a tuple as a store holds it."""
    return LENGTH.pack(len(key)) + key + LENGTH.pack(len(value)) + value


def parse_record(value: bytes, place: Callable[[], str]) -> Any:
    """Return the ``RecordProto`` of a value.

    Raises:
        ReadError: The value is something else, or damaged.
    """
    try:
        record = record_class().FromString(value)
        # a Record of 0.1 keeps its image in a field that a RecordProto does not have
        if not (record.pixel or record.data):
            outer = outer_class().FromString(value)
            record = outer.image if outer.HasField("image") else record
    except DecodeError as error:
        raise ReadError("is not a complete record of SINGA: truncated or damaged", place=place()) from error
    return record


def numbers_of(record: Any, shape: Sequence[int], place: Callable[[], str]) -> np.ndarray:
    """Return the numbers of a record: its pixels, or its data.

    Args:
        record: The ``RecordProto``.
        shape: Its sizes; empty for those that it says itself.
        place: Says which it is, for errors.

    Raises:
        ReadError: It has another number of them, or too many sizes.
    """
    if len(record.shape) > MAX_AXES:  # a few bytes each, which are objects and digits below
        raise ReadError(f"has {len(record.shape):,} sizes, expected at most {MAX_AXES}", place=place())
    values = np.frombuffer(record.pixel, np.uint8) if record.pixel else _floats(record, place)
    sizes = tuple(shape) or tuple(record.shape) or (values.size,)
    if not values.size:
        raise ReadError("has neither pixels nor data", place=place())
    if math.prod(sizes) != values.size or min(sizes) < 1:
        raise ReadError(
            f"has {values.size:,} values, expected {' x '.join(map(str, sizes))}"
            f"{' (shape of the store_conf)' if shape else ''}",
            place=place(),
        )
    return values.reshape(sizes)


def _floats(record: Any, place: Callable[[], str]) -> np.ndarray:
    """Return the data of a record, which the schema keeps as runs of packed floats."""
    content = b"".join(record.data)
    if len(content) % 4:
        raise ReadError(f"has {len(content):,} bytes of floats, expected a multiple of 4", place=place())
    return np.frombuffer(content, "<f4").astype(np.float32, copy=False)


def read_mean_record(content: bytes, place: str) -> np.ndarray | None:
    """Return the means in a file of SINGA; None if it is no such file.

    They are the first record of a kvfile (0.2, 0.3), or a ``Record`` alone (0.1).

    Raises:
        ReadError: A kvfile does not begin with a record.
    """
    if is_kvfile(content, len(content)):
        key_bytes = LENGTH.unpack_from(content)[0]
        start = 2 * LENGTH.size + key_bytes
        num_bytes = LENGTH.unpack_from(content, start - LENGTH.size)[0]
        value = content[start : start + num_bytes]
        return numbers_of(parse_record(value, lambda: place), (), lambda: f"{place}: record 0")
    try:
        image = outer_class().FromString(content).image
    except DecodeError:
        return None
    # a blob of Caffe can be read as a Record too, but then its sizes fit by no chance
    if len(image.shape) > MAX_AXES:
        return None
    sizes, count = list(image.shape), sum(map(len, image.data)) / 4
    if not count or not sizes or min(sizes) < 1 or math.prod(sizes) != count:
        return None
    return numbers_of(image, (), lambda: place)


@cache
def record_class() -> Any:
    """Return the class of RecordProto messages."""
    return singa_schema().wire_class("RecordProto")


@cache
def outer_class() -> Any:
    """Return the class of the Record messages of 0.1."""
    return singa_schema().wire_class("Record")
