"""Weights as Chainer's serializers write them: arrays by path, in ``.npz`` or HDF5 (npz.py, hdf5.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from netweave.files.hdf5 import HDF5_MAGIC, read_hdf5
from netweave.files.npy import read_npz


def read_weights(path: Path, *, place: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file by path (``conv1/W``), without the slash that ``save_hdf5`` begins with.

    Args:
        path: The file.
        place: Its name for messages.

    Raises:
        ReadError: It is damaged, or neither ``.npz`` nor HDF5.
        UsageError: It is HDF5, and h5py is not installed.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head == HDF5_MAGIC:
        return dict(read_hdf5(path, place=place).arrays())
    if head[:2] != b"PK":
        raise ReadError("is not a weights file of Chainer (.npz or HDF5)", place=place)
    return {name.lstrip("/"): array for name, array in read_npz(path, place=place).items()}
