"""Caffe's HDF5 data: a list of files, a dataset for each part of a record."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.data.byte_file import ByteStream, open_bytes
from netweave.data.extras import need
from netweave.data.location import lines_of
from netweave.data.source import Record, Source
from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_BYTES = 1 << 18
"""About so much is read at once of a dataset that lies in one piece; of one in chunks, a chunk."""

MAX_BLOCK_BYTES = 1 << 26
"""Of a chunk that is larger, only some rows are kept."""

KEPT_BYTES = 1 << 28
"""Blocks in memory at once: rows that are shuffled inside of a file of this size are read once."""

MAX_ROW_BYTES = 1 << 30
"""A larger row is taken for a damaged file."""

OPEN_FILES = 8
"""Files that are open at once."""


class HDF5(Source):
    """Rows of the files in the order of the list.

    Rows are read in blocks when they are first asked for, also from files elsewhere, and blocks are kept
    while there is room; so rows are best taken file by file, which ``groups`` says.

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
        self._lock = threading.Lock()
        self._opened: OrderedDict[str, Any] = OrderedDict()
        self._streams: dict[str, ByteStream] = {}
        alone = path.endswith((".h5", ".hdf5"))
        self._files = [path] if alone else [_found(line.strip(), root) for _, line in lines_of(path)]
        if not self._files:
            raise ReadError("lists no files", place=path)
        try:
            shapes = self._shapes_of_all()
        except ReadError:
            self.close()
            raise
        self.groups = tuple(found[0][0] for found in shapes)
        self._starts = np.cumsum([0, *self.groups])
        self.images = len(shapes[0][0]) == 4
        self._kept: OrderedDict[tuple[int, int, int], np.ndarray] = OrderedDict()
        self._kept_bytes = 0

    def _shapes_of_all(self) -> list[list[tuple[int, ...]]]:
        shapes = [self._shapes(file) for file in self._files]
        for file, found in zip(self._files, shapes, strict=True):
            if [shape[1:] for shape in found] != [shape[1:] for shape in shapes[0]]:
                raise ReadError(f"has rows of {found}, the first file {shapes[0]}", place=file)
        return shapes

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
        files = (np.searchsorted(self._starts, indices, side="right") - 1).tolist()
        places = list(zip(files, (indices - self._starts[files]).tolist(), strict=True))
        with self._lock:
            parts = [
                np.stack([self._row(file, part, row) for file, row in places])
                for part in range(len(self._datasets))
            ]
        if self.images:
            parts[0] = parts[0].transpose(0, 2, 3, 1)
        return tuple(parts)

    def close(self) -> None:
        """Close all files."""
        while self._opened:
            self._close_oldest()

    def _close_oldest(self) -> None:
        name, opened = self._opened.popitem(last=False)
        opened.close()
        self._streams.pop(name).close()  # h5py leaves what it was given open

    def _row(self, file: int, part: int, row: int) -> np.ndarray:
        """Return a row of a dataset of a file, from the block that it is in."""
        name = self._files[file]
        try:
            dataset = self._file(name)[self._datasets[part]]
            num_rows = _rows_of_block(dataset)
            key = (file, part, row // num_rows)
            if key not in self._kept:
                self._keep(key, _block(dataset, key[2] * num_rows, num_rows))
        except ReadError:
            raise
        except Exception as error:
            raise self._read_error(name, f"row {row} cannot be read", error) from error
        self._kept.move_to_end(key)
        found: np.ndarray = self._kept[key][row % num_rows]
        return found

    def _keep(self, key: tuple[int, int, int], block: np.ndarray) -> None:
        self._kept[key] = block
        self._kept_bytes += block.nbytes
        while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
            self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes

    def _shapes(self, file: str) -> list[tuple[int, ...]]:
        """Return the sizes of the datasets of a file."""
        # HDF5 reads the parts of a file when they are asked for, and h5py raises another kind of error for
        # each damage: KeyError, RuntimeError, ValueError, TypeError, OSError
        try:
            return self._checked_shapes(file)
        except ReadError:
            raise
        except Exception as error:
            raise self._read_error(file, "is damaged", error) from error

    def _checked_shapes(self, file: str) -> list[tuple[int, ...]]:
        opened = self._file(file)
        missing = [name for name in self._datasets if not self._is_array(opened.get(name))]
        if missing:
            found = ", ".join(opened)
            raise ReadError(f"has no dataset {', '.join(missing)}, only {found}", place=file)
        for name in self._datasets:
            dataset = opened[name]
            if dataset.dtype.kind not in "biuf" or _row_bytes(dataset) > MAX_ROW_BYTES:
                raise ReadError(
                    f"dataset {name!r} has rows of {dataset.shape[1:]} of type {dataset.dtype}, expected "
                    f"numbers, and at most {MAX_ROW_BYTES:,} bytes a row",
                    place=file,
                )
        shapes = [tuple(opened[name].shape) for name in self._datasets]
        if any(not shape or shape[0] != shapes[0][0] or not shape[0] for shape in shapes):
            raise ReadError(f"has datasets of {shapes}, expected the same number of rows", place=file)
        return shapes

    def _is_array(self, found: Any) -> bool:
        return isinstance(found, self._h5py.Dataset) and found.shape is not None

    def _file(self, name: str) -> Any:
        """Return an open file."""
        if name not in self._opened:
            while len(self._opened) >= OPEN_FILES:
                self._close_oldest()
            self._streams[name] = stream = ByteStream(open_bytes(name))
            try:
                self._opened[name] = self._h5py.File(stream, "r")
            except (OSError, RuntimeError) as error:
                stream.close()
                raise self._read_error(name, "cannot be opened as HDF5", error) from error
        self._opened.move_to_end(name)
        return self._opened[name]

    def _read_error(self, name: str, what: str, error: Exception) -> ReadError:
        """Return what HDF5's error comes from: the file, or the store that it is in."""
        of_store = self._streams[name].error
        return of_store or ReadError(f"{what}: {error}", place=name)


def _rows_of_block(dataset: Any) -> int:
    row_bytes = max(1, _row_bytes(dataset))
    wanted = dataset.chunks[0] if dataset.chunks else BLOCK_BYTES // row_bytes
    return int(max(1, min(wanted, MAX_BLOCK_BYTES // row_bytes)))


def _block(dataset: Any, first: int, num_rows: int) -> np.ndarray:
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and so is then the loss
        return np.asarray(dataset[first : first + num_rows], np.float32)


def _row_bytes(dataset: Any) -> int:
    return int(math.prod(dataset.shape[1:]) * max(4, dataset.dtype.itemsize))


def _found(name: str, root: str) -> str:
    """Return the path of a file of a list: as it is, or below the root if it is there."""
    below = Path(root) / name
    return str(below) if root and not Path(name).exists() and below.exists() else name
