"""RecordIO's frames."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.training.data.recordio import MAGIC_BYTES, Packed, frame, pack, unframe, unpack

pieces = st.lists(st.one_of(st.binary(max_size=9), st.just(MAGIC_BYTES)), max_size=8)


@given(pieces.map(b"".join))
def test_any_payload_comes_back(payload):
    framed = frame(payload)
    assert len(framed) % 4 == 0
    assert unframe(framed) == payload


@given(pieces.map(b"".join))
def test_the_magic_word_begins_parts_only(payload):
    """What looks for the magic word at multiples of four finds the beginnings of parts only."""
    framed = frame(payload)
    found = [at for at in range(0, len(framed), 4) if framed[at : at + 4] == MAGIC_BYTES]
    expected, at = [], 0
    while at < len(framed):
        expected.append(at)
        at += 8 + ((struct.unpack_from("<I", framed, at + 4)[0] & ((1 << 29) - 1)) + 3 & ~3)
    assert found == expected


def test_a_payload_with_the_magic_word():
    """By hand: cut where the word stands at a multiple of four, not where it stands at 5."""
    payload = b"abcd" + MAGIC_BYTES + b"x" + MAGIC_BYTES
    word = MAGIC_BYTES
    expected = (
        word + struct.pack("<I", 1 << 29 | 4) + b"abcd" + word + struct.pack("<I", 3 << 29 | 5) + b"x" + word
    )
    assert frame(payload) == expected + b"\0\0\0"


def test_one_label_and_several():
    one = pack(Packed(np.float32([3.5]), 7, b"image"))
    assert one == struct.pack("<IfQQ", 0, 3.5, 7, 0) + b"image"
    many = pack(Packed(np.float32([1, 2]), 8, b"image"))
    assert many == struct.pack("<IfQQ", 2, 0, 8, 0) + struct.pack("<ff", 1, 2) + b"image"
    for payload, labels in [(one, [3.5]), (many, [1, 2])]:
        found = unpack(payload)
        assert found.labels.tolist() == labels
        assert found.content == b"image"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has 0 bytes, expected at least 8"),
        (b"\0" * 8, "begins with 0x00000000, expected 0xced7230a; is the index of this file"),
        (MAGIC_BYTES + struct.pack("<I", 9) + b"abc", "has 3 bytes, expected 9; was the file copied whole"),
        (MAGIC_BYTES + struct.pack("<I", 2 << 29), "has a part with flag 2 where none is allowed"),
        (frame(b"abcd" + MAGIC_BYTES)[:12], "has 0 bytes, expected at least 8"),
    ],
)
def test_damage(content, message):
    with pytest.raises(ValueError, match=message):
        unframe(content)


def test_a_payload_that_is_too_short():
    with pytest.raises(ValueError, match="has 3 bytes, expected a header of 24"):
        unpack(b"abc")
    with pytest.raises(ValueError, match="declares 9 labels, but has only 24 bytes"):
        unpack(struct.pack("<IfQQ", 9, 0, 0, 0))
