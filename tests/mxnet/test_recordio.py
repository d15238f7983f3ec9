"""``mx.recordio``: a file that is written is there whole, with its index, or the old one is."""

from __future__ import annotations

import pytest

import netweave.mxnet as mx
from netweave.errors import WriteError
from tests.files.test_atomic import largest_file, names


def writer(folder, index_folder=None):
    index = (index_folder or folder) / "x.idx"
    return mx.recordio.MXIndexedRecordIO(str(index), str(folder / "x.rec"), "w")


def write(folder, *records, index_folder=None):
    opened = writer(folder, index_folder)
    for key, record in enumerate(records):
        opened.write_idx(key, record)
    opened.close()


def read(folder, index_folder=None):
    opened = mx.recordio.MXIndexedRecordIO(
        str((index_folder or folder) / "x.idx"), str(folder / "x.rec"), "r"
    )
    records = [opened.read_idx(key) for key in opened.keys]
    opened.close()
    return records


def test_the_old_records_stay_until_the_new_ones_are_closed(tmp_path):
    """A kill leaves what is there meanwhile: file and index were emptied when they were opened."""
    write(tmp_path, b"old", b"records")
    opened = writer(tmp_path)
    opened.write_idx(7, b"new")
    opened._file.flush()
    assert read(tmp_path) == [b"old", b"records"]
    opened.close()
    assert read(tmp_path) == [b"new"]
    assert names(tmp_path) == ["x.idx", "x.rec"]


def test_an_index_elsewhere_is_written_there(tmp_path):
    (tmp_path / "indices").mkdir()
    write(tmp_path, b"a", b"b", index_folder=tmp_path / "indices")
    assert read(tmp_path, tmp_path / "indices") == [b"a", b"b"]
    assert names(tmp_path) == ["indices", "x.rec"]


def test_an_error_leaves_the_old_records(tmp_path):
    write(tmp_path, b"old")
    with pytest.raises(ValueError, match="invalid literal"), writer(tmp_path) as opened:
        opened.write_idx("no number", b"new")
    assert read(tmp_path) == [b"old"]
    assert names(tmp_path) == ["x.idx", "x.rec"]


def test_reset_throws_away_what_was_written(tmp_path):
    opened = mx.recordio.MXRecordIO(str(tmp_path / "x.rec"), "w")
    opened.write(b"first")
    opened.reset()
    opened.write(b"second")
    opened.close()
    reader = mx.recordio.MXRecordIO(str(tmp_path / "x.rec"), "r")
    assert [reader.read(), reader.read()] == [b"second", None]
    reader.reset()
    assert reader.read() == b"second"
    reader.close()


def test_a_full_disk_leaves_the_old_records(tmp_path):
    write(tmp_path, b"old")
    with largest_file(20_000), pytest.raises(WriteError, match=r"x\.rec: cannot be written: File too large"):
        write(tmp_path, bytes(100_000))
    assert read(tmp_path) == [b"old"]
    assert names(tmp_path) == ["x.idx", "x.rec"]


def test_a_missing_folder_is_said(tmp_path):
    with pytest.raises(WriteError, match="cannot be written: No such file or directory; make its folder"):
        mx.recordio.MXRecordIO(str(tmp_path / "none" / "x.rec"), "w")
