"""Messages of Thrift's binary protocol are checked before the library takes them apart."""

from __future__ import annotations

import struct
import time

import pytest

pytest.importorskip("thriftpy2")

from thriftpy2.transport.memory import TCyMemoryBuffer

from netweave.training.data.sources.hbase import CheckedBinaryProtocol

HEAD = struct.pack(">Ii4si", 0x80010002, 4, b"rows", 7)
MOST = 2**31 - 1


def begun(body):
    return CheckedBinaryProtocol(TCyMemoryBuffer(HEAD + body)).read_message_begin()


def field(kind, content, number=0):
    return struct.pack(">bh", kind, number) + content


@pytest.mark.parametrize(
    "body",
    [
        b"\0",
        field(15, struct.pack(">bi", 8, 2) + bytes(8)) + b"\0",
        field(13, struct.pack(">bbi", 0, 0, 0)) + b"\0",  # an empty map, whose types some writers leave out
        field(12, field(11, struct.pack(">i", 3) + b"abc") + b"\0") + b"\0",
    ],
)
def test_whole_messages_begin(body):
    assert begun(body) == ("rows", 2, 7)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (field(15, struct.pack(">bi", 1, MOST)), "unknown type 1"),
        (field(13, struct.pack(">bbi", 0, 0, MOST)), "unknown type 0"),
        (field(11, struct.pack(">i", -5)), "string of -5 bytes"),
        (field(11, struct.pack(">i", MOST)), "at most"),
        (field(12, b"") * 200, "64 deep"),
    ],
)
def test_damaged_messages_are_refused_at_once(body, message):
    began = time.thread_time()
    with pytest.raises(ValueError, match=message):
        begun(body)
    assert time.thread_time() - began < 1


def test_a_list_longer_than_its_message_ends_with_it():
    with pytest.raises(Exception, match=r"."):
        begun(field(15, struct.pack(">bi", 8, MOST)))
