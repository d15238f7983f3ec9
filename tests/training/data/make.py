"""Small data in the forms of the sources, made without Netweave's writers."""

from __future__ import annotations

import struct

import numpy as np


def pictures(count, height=10, width=12, channels=3, seed=0):
    """Random pixels, (count, height, width, channels)."""
    shape = (count, height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def field(number, kind, value):
    """A field of a message of protocol buffers."""
    key = varint(number << 3 | kind)
    return key + (varint(len(value)) + value if kind == 2 else varint(value))


def varint(number):
    number &= (1 << 64) - 1
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def datum(pixels=None, label=0, *, encoded=None, floats=None, shape=None):
    """A Datum: raw planes, an encoded image, or floats."""
    if encoded is not None:
        return field(4, 2, encoded) + field(5, 0, label) + field(7, 0, 1)
    if floats is not None:
        body = b"".join(varint(6 << 3 | 5) + struct.pack("<f", value) for value in floats)
    else:
        body = field(4, 2, pixels.transpose(2, 0, 1).tobytes())
        shape = shape or pixels.transpose(2, 0, 1).shape
    return (
        b"".join(field(number, 0, size) for number, size in enumerate(shape, 1)) + body + field(5, 0, label)
    )


def data_base(folder, records):
    """An LMDB of the given values, by key."""
    import lmdb

    with (
        lmdb.open(str(folder), map_size=1 << 24) as environment,
        environment.begin(write=True) as transaction,
    ):
        for key, value in records.items():
            transaction.put(key.encode(), value)
    return str(folder)


def singa_record(pixels=None, label=0, *, data=None, shape=()):
    """A RecordProto of SINGA's common.proto, field by field: shape, label, pixels or floats."""
    body = b"".join(field(1, 0, size) for size in shape) + field(2, 0, label)
    if pixels is not None:
        body += field(3, 2, pixels.transpose(2, 0, 1).tobytes())
    if data is not None:
        body += field(4, 2, np.asarray(data, "<f4").tobytes())
    return body


def kvfile(records):
    """SINGA's store of the given values, by key."""
    return b"".join(
        struct.pack("<Q", len(part)) + part
        for key, value in records.items()
        for part in (key.encode(), value)
    )
