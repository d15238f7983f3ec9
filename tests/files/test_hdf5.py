"""HDF5 by another process: what comes back, and that damaged files neither hang nor crash the reader."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netweave.errors import ReadError, UsageError
from netweave.files import hdf5
from netweave.files.hdf5 import Group, read_hdf5
from netweave.installation import install_command

h5py = pytest.importorskip("h5py")

pytestmark = pytest.mark.guarded

WEIGHTS = Path(__file__).parents[1] / "golden" / "keras" / "unet.weights.h5"


def test_the_tree_is_as_h5py_has_it(tmp_path):
    arrays = {
        "a/x": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a/b/y": np.arange(3, dtype=np.int64),
        "a/b/half": np.ones(2, np.float16),
        "big": np.arange(4, dtype=">f8"),
        "none": np.zeros((0, 3), np.float32),
        "one": np.float32(7),
    }
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array
        file["packed"] = file["a/x"]  # a second name of the same array
        file["text"] = "hello"
        file["texts"] = np.array([b"a", b"b"])
        file["a"].attrs["names"] = ["x", "yß"]
        file.attrs["config"] = "{}"
        file.attrs["number"] = 3
    found = read_hdf5(path, place="x.h5")
    assert {name for name, _ in found.arrays()} == set(arrays)
    for name, array in found.arrays():
        np.testing.assert_array_equal(array, arrays[name])
        assert array.dtype == arrays[name].dtype
    assert found.get("text") == "hello"
    assert found.get("texts") is None
    assert found.attributes == {"config": "{}"}
    inner = found.group("a/b")
    assert isinstance(inner, Group)
    assert (inner.name, list(inner.members)) == ("/a/b", ["half", "y"])
    assert found.group("a").attributes == {"names": ["x", "yß"]}
    assert (found.get("a/none"), found.get("a/x/y"), found.group("a/x")) == (None, None, None)
    array = found.get("a/x")
    array[0, 0] = 5  # the file is not touched
    assert read_hdf5(path.read_bytes(), place="x.h5").get("a/x")[0, 0] == 0


def test_links_out_of_the_file_are_not_followed(tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["secret"] = np.ones(3)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["link"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/secret")
        file["soft"] = h5py.SoftLink("/link")
        file["loop/again"] = h5py.SoftLink("/loop")
        file["loop/hard"] = file["loop"]
    assert list(read_hdf5(tmp_path / "x.h5", place="x").arrays()) == []


def test_numbers_in_other_files_are_refused(tmp_path):
    (tmp_path / "raw").write_bytes(b"\0" * 80)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("raw", (10,), "f8", external=[(str(tmp_path / "raw"), 0, 80)])
    with pytest.raises(ReadError, match="the numbers of '/raw' are in another file"):
        read_hdf5(tmp_path / "x.h5", place="x")


def test_more_than_a_file_can_hold_is_refused(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("big", shape=(2**16, 2**14), chunks=(64, 64), dtype="f4")
    with pytest.raises(ReadError, match=r"x: is not a complete HDF5 file: '/big' declares \[65536, 16384\]"):
        read_hdf5(tmp_path / "x.h5", place="x")


def test_a_file_on_which_the_library_does_not_end_is_refused(monkeypatch):
    """One byte of Keras's file, found by damaging many: h5py opens it and never comes back."""
    content = bytearray(WEIGHTS.read_bytes())
    content[3049] = 2
    monkeypatch.setattr(hdf5, "SECONDS", 0.5)
    with pytest.raises(ReadError, match=r"unet: is damaged: HDF5's library needs more than 0\.\d seconds"):
        read_hdf5(bytes(content), place="unet")


def test_a_crash_is_an_error(monkeypatch, tmp_path):
    program = tmp_path / "hdf5_child.py"
    program.write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(hdf5, "__file__", str(tmp_path / "hdf5.py"))
    with pytest.raises(ReadError, match="HDF5's library does not survive it"):
        read_hdf5(WEIGHTS, place="unet")


def test_without_h5py(monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        UsageError, match=f"unet: is HDF5, which needs h5py: {re.escape(install_command('hdf5'))}"
    ):
        read_hdf5(WEIGHTS, place="unet")


def test_the_process_imports_nothing_of_ours():
    words = [sys.executable, "-c", "import sys; sys.path.insert(0, '.'); import hdf5_child; "
             "assert not [name for name in sys.modules if name.startswith('netweave')]"]  # fmt: skip
    subprocess.run(words, cwd=Path(hdf5.__file__).parent, check=True)
