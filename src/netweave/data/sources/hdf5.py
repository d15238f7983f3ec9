"""Caffe's HDF5 data: a list of files, a dataset for each part of a record."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.data.extras import need
from netweave.data.location import lines_of, local_copy
from netweave.data.source import Record, Source
from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

KEPT_FILES = 2
"""Files that are in memory at once: the one that is read, and the one before or after it."""


class HDF5(Source):
    """Rows of the files in the order of the list.

    A file is read into memory whole when its first row is asked for, as in Caffe; so rows are best taken
    file by file, which ``groups`` says.

    Args:
        path: One ``.h5`` file, or a text file with the name of one on each line.
        datasets: Names of the datasets, one for each part.
        root: A folder in which the files of a list are looked for, where they are not in the working one.

    Raises:
        ReadError: A file is missing, or lacks a dataset, or its datasets do not fit together.
    """

    def __init__(self, path: str, datasets: Sequence[str], root: str = "") -> None:
        self._h5py = need("h5py", "HDF5 files")
        self.place = path
        self._datasets = tuple(datasets)
        alone = path.endswith((".h5", ".hdf5"))
        self._files = [path] if alone else [_found(line.strip(), root) for _, line in lines_of(path)]
        if not self._files:
            raise ReadError("lists no files", place=path)
        shapes = [self._shapes(file) for file in self._files]
        for file, found in zip(self._files, shapes, strict=True):
            if [shape[1:] for shape in found] != [shape[1:] for shape in shapes[0]]:
                raise ReadError(f"has rows of {found}, the first file {shapes[0]}", place=file)
        self.groups = tuple(found[0][0] for found in shapes)
        self._starts = np.cumsum([0, *self.groups])
        self.images = len(shapes[0][0]) == 4
        self._lock = threading.Lock()
        self._kept: dict[int, list[np.ndarray]] = {}

    def __len__(self) -> int:
        return int(self._starts[-1])

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        file = int(np.searchsorted(self._starts, index, side="right")) - 1
        return f"{self._files[file]}: row {index - self._starts[file]}"

    def read(self, index: int) -> Record:
        """Return a row of each dataset, float32; an image is (height, width, channels)."""
        return tuple(part[0] for part in self.read_many(np.array([index])))

    def read_many(self, indices: np.ndarray) -> Record:
        """Return several rows of each dataset."""
        files = np.searchsorted(self._starts, indices, side="right") - 1
        loaded = {file: self._load(file) for file in dict.fromkeys(files.tolist())}
        parts = []
        for part in range(len(self._datasets)):
            rows = [
                loaded[file][part][index - self._starts[file]]
                for file, index in zip(files.tolist(), indices.tolist(), strict=True)
            ]
            parts.append(np.stack(rows))
        if self.images:
            parts[0] = parts[0].transpose(0, 2, 3, 1)
        return tuple(parts)

    def _load(self, file: int) -> list[np.ndarray]:
        with self._lock:
            if file not in self._kept:
                while len(self._kept) >= KEPT_FILES:
                    del self._kept[next(iter(self._kept))]
                with self._open(self._files[file]) as opened:
                    self._kept[file] = [np.asarray(opened[name], np.float32) for name in self._datasets]
            return self._kept[file]

    def _shapes(self, file: str) -> list[tuple[int, ...]]:
        with self._open(file) as opened:
            missing = [name for name in self._datasets if name not in opened]
            if missing:
                found = ", ".join(opened)
                raise ReadError(f"has no dataset {', '.join(missing)}, only {found}", place=file)
            shapes = [tuple(opened[name].shape) for name in self._datasets]
        if any(not shape or shape[0] != shapes[0][0] or not shape[0] for shape in shapes):
            raise ReadError(f"has datasets of {shapes}, expected the same number of rows", place=file)
        return shapes

    def _open(self, file: str) -> Any:
        try:
            return self._h5py.File(local_copy(file), "r")
        except OSError as error:
            raise ReadError(f"cannot be opened as HDF5: {error}", place=file) from error


def _found(name: str, root: str) -> str:
    """Return the path of a file of a list: as it is, or below the root if it is there."""
    below = Path(root) / name
    return str(below) if root and not Path(name).exists() and below.exists() else name
