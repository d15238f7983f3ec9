"""The file of keys and values in which a checkpoint lists its arrays (tensorflow/core/lib/io/table).

The format is LevelDB's: sorted keys in blocks, each key as what it adds to the one before, an index of the
blocks, and a footer with the place of the index. Every number is checked against the file before it is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from netweave.errors import ReadError, UnsupportedError
from netweave.files.protobuf_fields import read_varint

MAGIC = bytes.fromhex("57fb808b247547db")
"""The last eight bytes of a table."""

FOOTER = 48
TRAILER = 5
"""Bytes after each block: how it is compressed, and its checksum."""

MAX_ENTRIES = 1_000_000
"""A table with more entries is refused."""

COMPRESSIONS = {1: "Snappy"}
_POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, with its bits reversed: the checksum of leveldb's blocks."""


def is_table(tail: bytes) -> bool:
    """Return whether the last bytes of a file are those of a table."""
    return tail.endswith(MAGIC)


def read_table(content: bytes, *, place: str) -> dict[bytes, bytes]:
    """Return the entries of a table.

    Args:
        content: The whole file.
        place: Name of the file, for errors.

    Raises:
        ReadError: It is no table, is cut off, or is damaged.
        UnsupportedError: It is compressed.
    """
    if len(content) < FOOTER or not is_table(content):
        raise ReadError(
            "is not a TensorFlow checkpoint: its footer is wrong; was it copied completely?", place=place
        )
    footer = _Block(content[-FOOTER:-8], place)
    footer.varint(), footer.varint()  # the index of a filter that no checkpoint has
    entries: dict[bytes, bytes] = {}
    index = _block(content, footer.varint(), footer.varint(), place)
    for _, value in _entries(index, place):
        handle = _Block(value, place)
        for key, entry in _entries(_block(content, handle.varint(), handle.varint(), place), place):
            entries[key] = entry
            if len(entries) > MAX_ENTRIES:
                raise ReadError(f"lists more than {MAX_ENTRIES:,} arrays", place=place)
    return entries


def _block(content: bytes, offset: int, size: int, place: str) -> bytes:
    end = offset + size
    if end + TRAILER > len(content):
        raise ReadError(
            f"refers to a block at byte {offset:,} of {size:,} bytes, but has {len(content):,}; "
            f"was it copied completely?",
            place=place,
        )
    kind = content[end]
    if kind:
        raise UnsupportedError(
            f"is compressed ({COMPRESSIONS.get(kind, f'kind {kind}')}), which TensorFlow's own checkpoints "
            f"never are; save it again with tf.train.Saver",
            place=place,
        )
    (masked,) = struct.unpack_from("<I", content, end + 1)
    if masked != masked_checksum(content[offset : end + 1]):
        raise ReadError(f"is damaged: the block at byte {offset:,} has a wrong checksum", place=place)
    return content[offset:end]


def _entries(block: bytes, place: str) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise ReadError("is damaged: a block has no end", place=place)
    (num_restarts,) = struct.unpack_from("<I", block, len(block) - 4)
    end = len(block) - 4 - 4 * num_restarts
    if end < 0:
        raise ReadError("is damaged: a block is too short for its list", place=place)
    reader, key = _Block(block[:end], place), b""
    while reader.position < end:
        shared, added, size = reader.varint(), reader.varint(), reader.varint()
        if shared > len(key):
            raise ReadError(
                "is damaged: a key shares more bytes with the previous key than that has", place=place
            )
        key = key[:shared] + reader.take(added)
        yield key, reader.take(size)


class _Block:
    """Bytes that are read from front to back."""

    def __init__(self, content: bytes, place: str) -> None:
        self._content = content
        self._place = place
        self.position = 0

    def varint(self) -> int:
        """Read a number of 7 bits a byte."""
        read = read_varint(self._content, self.position)
        if read is None:
            raise ReadError("is damaged: a number has no end", place=self._place)
        number, self.position = read
        return number

    def take(self, count: int) -> bytes:
        """Read some bytes."""
        if self.position + count > len(self._content):
            raise ReadError("is damaged: an entry is longer than its block", place=self._place)
        self.position += count
        return self._content[self.position - count : self.position]


def masked_checksum(content: bytes) -> int:
    """Return the CRC-32C of some bytes as tables store it: turned and shifted.

    >>> hex(masked_checksum(b""))
    '0xa282ead8'
    """
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _row(number: int) -> int:
    for _ in range(8):
        number = (number >> 1) ^ (_POLYNOMIAL if number & 1 else 0)
    return number


_TABLE = [_row(number) for number in range(256)]
