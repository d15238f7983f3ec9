"""Weights as Chainer's serializers write them: arrays by path, in ``.npz`` or HDF5 (npz.py, hdf5.py)."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

HDF5_HEAD = b"\x89HDF\r\n\x1a\n"


def read_weights(path: Path, *, place: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file by path (``conv1/W``), without the slash that ``save_hdf5`` begins with.

    Args:
        path: The file.
        place: Its name for messages.

    Raises:
        ReadError: It is damaged, or neither ``.npz`` nor HDF5.
        UnsupportedError: It is HDF5, and h5py is not installed.
    """
    with path.open("rb") as file:
        head = file.read(8)
    if head == HDF5_HEAD:
        return _hdf5(path, place)
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name.lstrip("/"): archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile, AttributeError) as error:
        raise ReadError(f"is no file of weights of Chainer (.npz or HDF5): {error}", place=place) from error
    return {name: array for name, array in arrays.items() if array.dtype != object}


def _hdf5(path: Path, place: str) -> dict[str, np.ndarray]:
    try:
        import h5py
    except ImportError as error:
        raise UnsupportedError(
            "is HDF5, and h5py is not installed: pip install 'netweave[hdf5]'", place=place
        ) from error
    arrays: dict[str, np.ndarray] = {}
    try:
        with h5py.File(path, "r") as file:
            file.visititems(
                lambda name, item: (
                    arrays.__setitem__(name, item[()]) if isinstance(item, h5py.Dataset) else None
                )
            )
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ReadError(f"is damaged: {error}", place=place) from error
    return arrays
