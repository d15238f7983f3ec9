"""Files that are there whole or not at all: full disks, kills between two moves, links, devices, names."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
from pathlib import Path

import pytest

from netweave.errors import ReadError, WriteError
from netweave.files import read_bytes
from netweave.files.output_files import Replacement, finish_all_moves, replacing_file, write_file, writing


@contextlib.contextmanager
def largest_file(num_bytes):
    """Let no file grow beyond so many bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_that_may_not_grow_leaves_the_old_one(tmp_path):
    path = tmp_path / "report.json"
    write_file(path, "old")
    with (
        largest_file(4096),
        pytest.raises(WriteError, match=r"report\.json: cannot be written: File too large; raise the limit"),
    ):
        write_file(path, "n" * 10_000)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["report.json"]


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (errno.ENOSPC, "No space left on device; free some space there, or write to another disk"),
        (errno.EDQUOT, "Disk quota exceeded; remove some of your files there"),
        (errno.EIO, "Input/output error; the disk may be failing"),
    ],
)
def test_what_the_system_says_is_said_with_what_to_do(tmp_path, monkeypatch, code, advice):
    path = tmp_path / "a"
    write_file(path, b"old")

    def fail(number):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteError, match=f"cannot be written: {advice}"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_library_that_wraps_the_error_of_the_system_is_understood(tmp_path):
    with (
        pytest.raises(WriteError, match=r"x\.h5: cannot be written: No space left on device; free"),
        writing(tmp_path / "x.h5"),
    ):
        raise RuntimeError(
            "Can't decrement id ref count (errno = 28, error message = 'No space left on device')"
        )


def test_other_errors_and_those_of_ours_pass(tmp_path):
    with pytest.raises(KeyError, match="a bug"), writing(tmp_path):
        raise KeyError("a bug")
    with pytest.raises(ReadError, match="No space"), Replacement(tmp_path / "x"):
        raise ReadError("No space left on device")
    assert names(tmp_path) == []


def test_several_files_are_replaced_together(tmp_path):
    net = tmp_path / "net.prototxt"
    with Replacement(net) as new:
        (new.folder / "net.prototxt").write_text("net 1")
        (new.folder / "net.caffemodel").write_text("weights 1")
        assert names(tmp_path) == [".net.prototxt.unfinished"]
    assert names(tmp_path) == ["net.caffemodel", "net.prototxt"]


@pytest.mark.parametrize("killed_after", [0, 1, 2])
def test_whoever_comes_after_a_kill_between_moves_finishes_them(tmp_path, monkeypatch, killed_after):
    net, weights = tmp_path / "net.prototxt", tmp_path / "net.caffemodel"
    net.write_text("old net")
    weights.write_text("old weights")
    replace, moved = os.replace, []

    class KilledError(BaseException):
        pass

    def killed(source, target):
        if len(moved) == killed_after:
            raise KilledError
        moved.append(target)
        replace(source, target)

    monkeypatch.setattr(os, "replace", killed)
    with contextlib.suppress(KilledError), Replacement(net) as new:
        (new.folder / net.name).write_text("new net")
        (new.folder / weights.name).write_text("new weights")
    monkeypatch.undo()
    assert read_bytes(net) == b"new net"
    assert read_bytes(weights) == b"new weights"
    assert names(tmp_path) == ["net.caffemodel", "net.prototxt"]


def test_moves_of_a_folder_of_files_are_finished(tmp_path):
    folder = tmp_path / ".net_iter_3.checkpoint.complete"
    folder.mkdir()
    (folder / "net_iter_3.caffemodel").write_text("3")
    finish_all_moves(tmp_path / "other_iter_")
    assert names(tmp_path) == [folder.name]
    finish_all_moves(tmp_path / "net_iter_")
    assert names(tmp_path) == ["net_iter_3.caffemodel"]


def test_nothing_is_moved_out_of_a_folder_that_a_link_leads_to(tmp_path):
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    (elsewhere / "secret").write_text("s")
    (here / "net.onnx").write_text("net")
    (here / ".net.onnx.complete").symlink_to(elsewhere)
    assert read_bytes(here / "net.onnx") == b"net"
    assert names(elsewhere) == ["secret"]
    assert names(here) == [".net.onnx.complete", "net.onnx"]


def test_what_a_dead_process_left_is_removed_and_a_living_one_is_left_alone(tmp_path):
    path = tmp_path / "a"
    (tmp_path / ".a.unfinished").mkdir()
    (tmp_path / ".a.unfinished" / "half").write_text("half")
    with Replacement(path) as first:
        (first.folder / "a").write_text("first")
        assert names(first.folder) == ["a"]
        with Replacement(path) as second:
            assert second.folder != first.folder
            (second.folder / "a").write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert names(tmp_path) == ["a"]


def test_a_device_is_written_to_and_stays_one(tmp_path):
    write_file("/dev/null", "x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_the_longest_name_that_the_system_takes_can_be_written(tmp_path):
    path = tmp_path / ("n" * 255)
    write_file(path, "x")
    assert names(tmp_path) == [path.name]


def test_a_folder_in_the_way_of_one_of_several_files_is_seen_before_any_is_moved(tmp_path):
    (tmp_path / "net.caffemodel").mkdir()
    new = Replacement(tmp_path / "net.prototxt")
    (new.folder / "net.prototxt").write_text("net")
    (new.folder / "net.caffemodel").write_text("weights")
    with pytest.raises(WriteError, match=r"net\.prototxt: cannot be written: Is a directory; give the name"):
        new.commit()
    assert names(tmp_path) == ["net.caffemodel"]


def test_a_missing_folder_is_said(tmp_path):
    with (
        pytest.raises(WriteError, match="missing/a: cannot be written: No such file or directory; make its"),
        replacing_file(tmp_path / "missing" / "a"),
    ):
        pass
