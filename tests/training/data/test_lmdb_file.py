"""Reading an LMDB by its pages: what the library reads, and one error for every damage."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import ReadError, UnsupportedError
from netweave.training.data.byte_file import LocalFile
from netweave.training.data.sources.lmdb import LMDBFile
from tests.hostile.limited_child import run_limited
from tests.training.data.make import data_base, datum

lmdb = pytest.importorskip("lmdb")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

READ_ALL = """
from netweave.training.data.sources.lmdb import LMDB

def read(path):
    with LMDB(path) as source:
        for index in range(len(source)):
            source.read(index)

for path in sys.argv[1:]:
    report(path=path, **attempt(read, path))
"""


def opened(path: Path) -> LMDBFile:
    file = path / "data.mdb" if path.is_dir() else path
    return LMDBFile(LocalFile(file, "db"), place="db")


def entries(path: Path) -> dict[bytes, bytes]:
    file = opened(path)
    found = dict(zip(file.keys, file.values(range(len(file.keys))), strict=True))
    file.close()
    return found


keys = st.binary(min_size=1, max_size=40)
values = st.binary(max_size=60) | st.integers(0, 9000).map(bytes)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.dictionaries(keys, values, max_size=60), st.integers(0, 20)), max_size=4))
def test_the_library_reads_the_same(tmp_path_factory, transactions):
    folder = tmp_path_factory.mktemp("db")
    with lmdb.open(str(folder), map_size=1 << 24) as environment:
        for added, num_deleted in transactions:
            with environment.begin(write=True) as transaction:
                for key, value in added.items():
                    transaction.put(key, value)
                cursor = transaction.cursor()
                for _ in range(num_deleted if cursor.first() else 0):
                    cursor.delete()
        with environment.begin() as transaction:
            expected = list(transaction.cursor())
    assert list(entries(folder).items()) == expected
    assert list(entries(folder / "data.mdb").items()) == expected


def test_a_tree_of_several_levels(tmp_path):
    with lmdb.open(str(tmp_path), map_size=1 << 28) as environment:
        with environment.begin(write=True) as transaction:
            for number in range(30_000):
                transaction.put(
                    f"{number * 7919 % 30_000:08d}{'x' * (number % 300)}".encode(), b"%d" % number
                )
        with environment.begin() as transaction:
            assert transaction.stat()["depth"] >= 3
            expected = list(transaction.cursor())
    assert list(entries(tmp_path).items()) == expected


def images(folder: Path, count: int = 40, size: int = 30) -> Path:
    content = datum(np.zeros((size, size, 3), np.uint8))
    data_base(folder, {f"{number:08d}": content for number in range(count)})
    return folder / "data.mdb"


@pytest.mark.slow
@pytest.mark.multi
def test_a_file_cut_short_anywhere_is_refused(tmp_path):
    whole = images(tmp_path / "db").read_bytes()
    paths = []
    for number, length in enumerate([*range(0, len(whole), 4096), *range(100, len(whole), 7001)]):
        paths.append(tmp_path / f"{number}.mdb")
        paths[-1].write_bytes(whole[:length])
    results = run_limited(READ_ALL, *paths, num_bytes=8 << 30)
    assert len(results) == len(paths)
    expected = entries(tmp_path / "db")
    for path, result in zip(paths, results, strict=True):
        if result["outcome"] == "read":  # nothing was cut off but the free room of a page
            assert entries(path) == expected
            continue
        assert "cannot be opened as an LMDB: " in result["outcome"]
        assert result["outcome"].startswith(f"ReadError: {result['path']}")
        assert result["seconds"] < 2


def test_a_file_that_is_cut_while_it_is_open(tmp_path):
    path = images(tmp_path / "db")
    file = opened(path)
    path.write_bytes(path.read_bytes()[:50_000])
    with pytest.raises(ReadError, match="db: cannot be opened as an LMDB: it was truncated while"):
        file.values(range(len(file.keys)))
    file.close()


def page(number: int, change: Callable[[bytearray], None]) -> Callable[[bytearray], None]:
    def damage(content: bytearray) -> None:
        held = content[number * 4096 : (number + 1) * 4096]
        change(held)
        content[number * 4096 : (number + 1) * 4096] = held

    return damage


def put(offset: int, value: int, num_bytes: int = 2) -> Callable[[bytearray], None]:
    def change(held: bytearray) -> None:
        held[offset : offset + num_bytes] = value.to_bytes(num_bytes, "little")

    return change


def alike(held: bytearray) -> None:
    """Make all nodes of a page one."""
    count = (int.from_bytes(held[12:14], "little") - 16) // 2
    held[16 : 16 + 2 * count] = held[16:18] * count
    put(int.from_bytes(held[16:18], "little") + 6, 1000)(held)


META = {
    "no magic": (put(16, 0, 4), "no meta page"),
    "another version": (put(20, 9, 4), "no meta page"),
    "pages of no bytes": (put(40, 0, 4), "no meta page"),
    "pages of 3 bytes": (put(40, 3, 4), "no meta page"),
    "a root behind the end": (put(128, 2**40, 8), "are needed, but it has"),
    "a root that is no page": (put(128, 2**64 - 2, 8), "are needed, but it has"),
    "too deep": (put(94, 60000), "60000 deep"),
    "a root that is a head": (put(128, 0, 8), "page 0 is damaged"),
}
LEAF = {
    "another number": (put(0, 77, 8), "is damaged"),
    "another kind": (put(10, 0x24), "is damaged"),
    "no room for its list": (put(12, 3), "is damaged"),
    "a list longer than the page": (put(12, 60000), "is damaged"),
    "nodes behind the page": (put(14, 60000), "is damaged"),
    "a node behind the page": (put(16, 65535), "is damaged"),
    "a node in the list": (put(16, 20), "is damaged"),
    "all nodes the same, with a long key": (alike, "is damaged"),
}


@pytest.mark.parametrize("name", [*META, *LEAF])
def test_garbage_is_refused(name, tmp_path):
    content = bytearray(images(tmp_path / "db").read_bytes())
    root = max(int.from_bytes(content[begin + 128 : begin + 136], "little") for begin in (0, 4096)
               if content[begin + 128 : begin + 136] != b"\xff" * 8)  # fmt: skip
    change, message = (META | LEAF)[name]
    for number in (0, 1) if name in META else (root,):
        page(number, change)(content)
    path = tmp_path / "bad.mdb"
    path.write_bytes(content)
    with pytest.raises(ReadError, match=f"db: cannot be opened as an LMDB: .*{message}"):
        opened(path)


def test_several_values_of_a_key_are_refused(tmp_path):
    with lmdb.open(str(tmp_path), max_dbs=1) as environment:
        environment.open_db(b"inner")
    with pytest.raises(UnsupportedError, match="nested databases"):
        opened(tmp_path)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_damage_is_read_or_refused(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("db") / "db"
    content = bytearray(images(path, count=data.draw(st.sampled_from([3, 90])), size=8).read_bytes())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (path / "data.mdb").write_bytes(content)
    with contextlib.suppress(ReadError, UnsupportedError):
        entries(path)
