"""MXNet's RecordIO (dmlc-core recordio.h; python/mxnet/recordio.py): the frame of a record, and its header.

A record is a magic word, a word of 3 bits of flag and 29 of length, the payload, and zeros up to a multiple
of four. A payload that holds the magic word at a multiple of four is cut there, without it: the parts have
the flags 1 (first), 2 and 3 (last) instead of 0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

MAGIC = 0xCED7230A
MAGIC_BYTES = struct.pack("<I", MAGIC)
WHOLE, FIRST, MIDDLE, LAST = range(4)
HEADER = struct.Struct("<IfQQ")
LENGTH_BITS = 29


@dataclass(frozen=True, slots=True)
class Packed:
    """The payload of an image record.

    Attributes:
        labels: One label, or those that follow the header, float32.
        identity: Number of the record.
        content: The image, encoded.
    """

    labels: np.ndarray
    identity: int
    content: bytes


def head(frame: bytes, start: int = 0) -> tuple[int, int]:
    """Return flag and length of the part that begins at a byte.

    Raises:
        ValueError: There is no part, or it is cut off.
    """
    if len(frame) < start + 8:
        raise ValueError(f"has {len(frame) - start} bytes, expected at least 8; was the file copied whole?")
    magic, word = struct.unpack_from("<II", frame, start)
    if magic != MAGIC:
        raise ValueError(f"begins with {magic:#010x}, expected {MAGIC:#010x}; is the index of this file?")
    return word >> LENGTH_BITS, word & ((1 << LENGTH_BITS) - 1)


def padded(length: int) -> int:
    """Return the room that a payload takes."""
    return (length + 3) & ~3


def unframe(frame: bytes) -> bytes:
    """Return the payload of a record, its parts put together again.

    Raises:
        ValueError: The bytes are no whole record.
    """
    parts: list[bytes] = []
    start = 0
    while True:
        flag, length = head(frame, start)
        part = frame[start + 8 : start + 8 + length]
        if len(part) < length:
            raise ValueError(f"has {len(part):,} bytes, expected {length:,}; was the file copied whole?")
        if (flag in {WHOLE, FIRST}) != (not parts):
            raise ValueError(f"has a part with flag {flag} where none is allowed")
        parts.append(part)
        if flag in {WHOLE, LAST}:
            return MAGIC_BYTES.join(parts)
        start += 8 + padded(length)


def frame(payload: bytes) -> bytes:
    """Return a payload as a record.

    Raises:
        ValueError: It is too long.
    """
    parts = _parts(payload)
    flags = [WHOLE] if len(parts) == 1 else [FIRST, *[MIDDLE] * (len(parts) - 2), LAST]
    written = bytearray()
    for flag, part in zip(flags, parts, strict=True):
        if len(part) >> LENGTH_BITS:
            raise ValueError(f"has {len(part):,} bytes, fewer than {1 << LENGTH_BITS:,} are possible")
        written += struct.pack("<II", MAGIC, flag << LENGTH_BITS | len(part)) + part
        written += bytes(padded(len(part)) - len(part))
    return bytes(written)


def _parts(payload: bytes) -> list[bytes]:
    parts, start, at = [], 0, payload.find(MAGIC_BYTES)
    while at >= 0:
        if at % 4 == 0:
            parts.append(payload[start:at])
            start = at + 4
        at = payload.find(MAGIC_BYTES, at + (4 if at % 4 == 0 else 1))
    return [*parts, payload[start:]]


def unpack(payload: bytes) -> Packed:
    """Return header and image of an image record.

    Raises:
        ValueError: The payload is shorter than it says.
    """
    if len(payload) < HEADER.size:
        raise ValueError(f"has {len(payload)} bytes, expected a header of {HEADER.size}")
    count, label, identity, _ = HEADER.unpack_from(payload)
    end = HEADER.size + 4 * count
    if len(payload) < end:
        raise ValueError(f"declares {count} labels, but has only {len(payload)} bytes")
    labels = np.frombuffer(payload, "<f4", count, HEADER.size) if count else np.array([label], np.float32)
    return Packed(labels, identity, payload[end:])


def leading_labels(frame: bytes) -> np.ndarray | None:
    """Return the labels of an image record from its first bytes; None where these do not hold them all.

    Raises:
        ValueError: The bytes begin no record.
    """
    flag, length = head(frame)
    start = 8 + HEADER.size
    if flag != WHOLE or len(frame) < start or length < HEADER.size:
        return None
    count, label, _, _ = HEADER.unpack_from(frame, 8)
    if not count:
        return np.array([label], np.float32)
    end = start + 4 * count
    return None if min(len(frame), 8 + length) < end else np.frombuffer(frame, "<f4", count, start)


def pack(packed: Packed) -> bytes:
    """Return an image record as a payload."""
    if packed.labels.size == 1:
        return HEADER.pack(0, float(packed.labels.ravel()[0]), packed.identity, 0) + packed.content
    labels = np.asarray(packed.labels, "<f4").ravel()
    return HEADER.pack(labels.size, 0.0, packed.identity, 0) + labels.tobytes() + packed.content
