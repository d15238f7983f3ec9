"""Files elsewhere give the bytes that the file has, read no more than is needed, and bear a lost request."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import ReadError
from netweave.job import DataSource
from netweave.training.data import byte_file, open_source
from netweave.training.data.byte_file import (
    MAX_GAP_BYTES,
    MAX_REQUEST_BYTES,
    RemoteFile,
    merge_spans,
    open_bytes,
)
from netweave.training.data.pack import pack
from netweave.training.data.sources.arrays import Arrays
from tests.training.data.http_store import served
from tests.training.data.make import pictures

fsspec = pytest.importorskip("fsspec")

CONTENT = np.random.default_rng(0).bytes(40_000)
spans = st.lists(st.tuples(st.integers(0, 41_000), st.integers(0, 9000)), max_size=12)


class Counted(fsspec.get_filesystem_class("memory")):
    """Memory that counts what is asked of it, and may fail."""

    protocol = "counted"
    asked: list[tuple[int, int]] = []  # noqa: RUF012 - one for all, as the store of memory is
    failures = 0

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def cat_ranges(self, paths, starts, ends, **options):
        type(self).asked += list(zip(starts, ends, strict=True))
        if type(self).failures:
            type(self).failures -= 1
            return [TimeoutError("no answer")] * len(paths)
        return super().cat_ranges(paths, starts, ends, **options)


@pytest.fixture
def counted(monkeypatch):
    fsspec.register_implementation("counted", Counted, clobber=True)
    Counted.asked, Counted.failures = [], 0
    monkeypatch.setattr(byte_file, "PAUSES_S", (0.0, 0.0))
    system = fsspec.filesystem("counted")
    yield system
    system.rm("/", recursive=True)


def remote(content=CONTENT):
    system = fsspec.filesystem("memory")
    system.pipe("/byte_file_test", content)
    return RemoteFile("memory://byte_file_test", system, len(content))


@given(spans, st.integers(1, 5000), st.integers(0, 600), st.integers(1, 20_000))
@settings(max_examples=60, deadline=None)
def test_any_spans_are_what_the_file_has(wanted, block, gap, request):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("BLOCK_BYTES", block), ("MAX_GAP_BYTES", gap), ("MAX_REQUEST_BYTES", request)):
            patch.setattr(byte_file, name, value)
        file = remote()
        expected = [CONTENT[offset : offset + size] for offset, size in wanted]
        assert file.read_many(wanted) == expected
        assert [file.read(offset, size) for offset, size in wanted] == expected


@given(st.lists(st.tuples(st.integers(0, 1 << 26), st.integers(1, 1 << 24)), max_size=30))
def test_requests_cover_what_is_asked_for_and_little_else(wanted):
    requests, of_span = merge_spans(wanted)
    assert requests == sorted(requests)
    for number, (start, length) in enumerate(requests):
        inside = sorted(wanted[span] for span, request in enumerate(of_span) if request == number)
        assert length <= MAX_REQUEST_BYTES or inside == [(start, length)] * len(inside)
        reached = start
        for offset, size in inside:
            assert start <= offset <= reached + MAX_GAP_BYTES
            reached = max(reached, offset + size)
        assert reached == start + length
    assert set(of_span) == set(range(len(requests)))


def test_neighbours_are_one_request(counted):
    counted.pipe("/x", CONTENT)
    file = open_bytes("counted://x")
    file.read_many([(start, 100) for start in range(0, 40_000, 100)])
    assert Counted.asked == [(0, 40_000)]


def test_sequential_reading_needs_few_requests(counted, monkeypatch):
    monkeypatch.setattr(byte_file, "BLOCK_BYTES", 1000)
    counted.pipe("/x", CONTENT)
    file = open_bytes("counted://x")
    assert b"".join(file.read(start, 8) for start in range(0, 40_000, 8)) == CONTENT
    assert len(Counted.asked) <= 8
    assert sum(end - start for start, end in Counted.asked) == 40_000


def packed(folder, kind, name):
    images = pictures(60, height=80, width=80).transpose(0, 3, 1, 2)
    pack(Arrays(images, np.arange(60)), folder / name, kind)
    return images


KINDS = [
    ("lmdb", "db", {}),
    ("recordio", "x.rec", {"color": "bgr"}),
    ("hdf5", "x.h5", {"datasets": ["data", "label"]}),
]


@pytest.mark.parametrize(("kind", "name", "given"), KINDS)
def test_only_what_is_needed_is_read(counted, tmp_path, kind, name, given):
    """Of 60 images one is read: the index and that image, not 1.2 MB (4.6 MB as floats)."""
    pytest.importorskip({"lmdb": "lmdb", "recordio": "cv2", "hdf5": "h5py"}[kind])
    images = packed(tmp_path, kind, name)
    counted.put(f"{tmp_path}/", "/", recursive=True)
    whole = counted.du(f"/{name}")
    settings = {"path": f"counted://{name}", **given}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_file, "BLOCK_BYTES", 1 << 14)
        source = open_source(DataSource(kind, ("data", "label"), 1, settings))
        pixels, label = source.read(41)
        source.close()
    np.testing.assert_array_equal(pixels, images[41].transpose(1, 2, 0))
    assert float(np.ravel(label)[0]) == 41
    asked = sum(end - start for start, end in Counted.asked)
    assert asked < whole / 3, f"{asked:,} of {whole:,} bytes"


@pytest.mark.parametrize(("kind", "name", "given"), KINDS)
def test_over_http(tmp_path, kind, name, given):
    pytest.importorskip("aiohttp")
    pytest.importorskip({"lmdb": "lmdb", "recordio": "cv2", "hdf5": "h5py"}[kind])
    images = packed(tmp_path, kind, name)
    with served(tmp_path) as store:
        source = DataSource(kind, ("data", "label"), 1, {"path": f"{store.url}/{name}", **given})
        for ranges in (True, False):  # a store without them has the file copied first
            store.ranges = ranges
            with open_source(source) as opened:
                assert len(opened) == 60
                for index in (0, 59, 7):
                    np.testing.assert_array_equal(opened.read(index)[0], images[index].transpose(1, 2, 0))


def test_a_lost_request_is_repeated(counted):
    counted.pipe("/x", CONTENT)
    file = open_bytes("counted://x")
    Counted.failures = 2
    assert file.read_many([(5, 10)]) == [CONTENT[5:15]]
    assert len(Counted.asked) == 3


def test_a_store_that_dies_is_named_and_may_come_back(counted):
    counted.pipe("/x", CONTENT)
    file = open_bytes("counted://x")
    Counted.failures = 1000
    message = r"counted://x: bytes 5 to 15: cannot be read: no answer; is the store up\? A run that stopped"
    with pytest.raises(ReadError, match=message):
        file.read_many([(5, 10)])
    before = len(Counted.asked)
    with pytest.raises(ReadError, match="no answer"):
        file.read(5, 10)
    assert len(Counted.asked) == before + 1, "a dead store is not asked three times for every span"
    Counted.failures = 0
    assert file.read(5, 10) == CONTENT[5:15]


def test_a_file_that_was_replaced(counted):
    counted.pipe("/x", CONTENT)
    file = open_bytes("counted://x")
    counted.pipe("/x", CONTENT[:100])
    with pytest.raises(ReadError, match="the store gave 50 bytes instead of 950; was the file replaced"):
        file.read_many([(50, 950)])


def test_what_is_no_file(tmp_path):
    with pytest.raises(ReadError, match="nothing: there is no such file"):
        open_bytes(str(tmp_path / "nothing"))
    with pytest.raises(ReadError, match="is a folder, expected a file"):
        open_bytes(str(tmp_path))
    fsspec.filesystem("memory").pipe("/byte_file_folder/x", b"1")
    with pytest.raises(ReadError, match="is a folder, expected a file"):
        open_bytes("memory://byte_file_folder")
    with pytest.raises(ReadError, match="memory://none: there is no such file"):
        open_bytes("memory://none")


def test_every_place_of_a_local_file(tmp_path):
    (tmp_path / "x").write_bytes(CONTENT[:50])
    with open_bytes(str(tmp_path / "x")) as file:
        for offset, size in itertools.product(range(0, 60, 7), range(0, 60, 11)):
            assert file.read(offset, size) == CONTENT[:50][offset : offset + size]
