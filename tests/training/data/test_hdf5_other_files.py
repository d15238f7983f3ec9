"""HDF5 data whose numbers are in other files: a stranger's file would read those of the user."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from netweave.errors import ReadError
from netweave.job import DataSource
from netweave.training.data import open_source


@pytest.fixture
def secret(tmp_path):
    """Write a file that the data must not reach."""
    path = tmp_path / "secret"
    path.write_bytes(np.full(12, 7, np.float32).tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["data"] = np.full((4, 3), 7, np.float32)
    return path


def external(file, secret):
    file.create_dataset("data", (4, 3), "f4", external=[(str(secret), 0, h5py.h5f.UNLIMITED)])


def virtual(file, secret):
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:] = h5py.VirtualSource(str(secret.with_name("other.h5")), "data", (4, 3))
    file.create_virtual_dataset("data", layout)


def linked(file, secret):
    file["data"] = h5py.ExternalLink(str(secret.with_name("other.h5")), "/data")


def group_linked(file, secret):
    file["inner"] = h5py.ExternalLink(str(secret.with_name("other.h5")), "/")
    file["data"] = h5py.SoftLink("/inner/data")


@pytest.mark.parametrize("make", [external, virtual, linked, group_linked])
def test_numbers_of_other_files_are_not_read(make, secret, tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        make(file, secret)
        file["label"] = np.zeros(4, np.float32)
    with h5py.File(path) as file:
        np.testing.assert_array_equal(file["data"][:], np.full((4, 3), 7))  # HDF5's library itself does
    wanted = DataSource("hdf5", ("data", "label"), 1, {"path": str(path), "datasets": ["data", "label"]})
    with pytest.raises(ReadError, match=r"x\.h5: .*data"), open_source(wanted) as source:
        source.read(0)
