"""Checksums beside packed records: a flipped bit anywhere is an error, and nothing is checked twice."""

from __future__ import annotations

import random

import pytest

from netweave.errors import ReadError
from netweave.training.data.block_checksums import (
    BLOCK_BYTES,
    SUFFIX,
    checked,
    read_checksums,
    write_checksums,
)
from netweave.training.data.byte_file import LocalFile, open_bytes

SIZE = 3 * BLOCK_BYTES + 100


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    write_checksums(path)
    return path


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def test_a_whole_file_is_read_as_it_is(file):
    with checked(open_bytes(str(file))) as opened:
        assert opened.read(0, SIZE) == file.read_bytes()
        assert opened.read(BLOCK_BYTES - 5, 10) == file.read_bytes()[BLOCK_BYTES - 5 : BLOCK_BYTES + 5]
        assert opened.read(SIZE - 3, 100) == file.read_bytes()[-3:]
        assert opened.read(SIZE, 5) == b""


@pytest.mark.parametrize("place", [0, BLOCK_BYTES - 1, BLOCK_BYTES, SIZE - 1])
def test_a_flipped_bit_is_an_error_of_its_block_alone(file, place):
    flip(file, place)
    other = (place // BLOCK_BYTES + 1) % 4 * BLOCK_BYTES
    with checked(open_bytes(str(file))) as opened:
        assert opened.read(other, 10) == file.read_bytes()[other : other + 10]
        with pytest.raises(ReadError, match=r"x: is damaged: it is not as it was packed .*x\.crc32"):
            opened.read(place, 1)


def test_a_file_of_another_size_is_an_error(file):
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ReadError, match="is not as it was packed"):
        checked(open_bytes(str(file)))


@pytest.mark.parametrize("place", [0, 20, 50, -1])
def test_damaged_checksums_are_an_error(file, place):
    flip(file.with_name("x" + SUFFIX), place)
    with pytest.raises(ReadError, match=r"x\.crc32: is damaged, so that .*x cannot be checked"):
        read_checksums(str(file))


def test_a_file_without_checksums_is_not_checked(tmp_path):
    (tmp_path / "y").write_bytes(b"y")
    with checked(open_bytes(str(tmp_path / "y"))) as opened:
        assert isinstance(opened, LocalFile)


def test_each_block_is_read_once_to_be_checked(file, monkeypatch):
    spans = []
    with checked(open_bytes(str(file))) as opened:
        read = LocalFile.read
        monkeypatch.setattr(LocalFile, "read", lambda self, *span: spans.append(span) or read(self, *span))
        for _ in range(3):
            opened.read(10, BLOCK_BYTES)
    assert spans == [(0, 2 * BLOCK_BYTES)] + 3 * [(10, BLOCK_BYTES)]
