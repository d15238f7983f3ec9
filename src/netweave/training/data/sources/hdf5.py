"""Caffe's HDF5 data: a list of files, a dataset for each part of a record."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from netweave.files.decompression_limit import allowed_bytes
from netweave.files.source import is_file
from netweave.installation import need
from netweave.training.data.location import lines_of
from netweave.training.data.source import Record, Source
from netweave.training.data.sources.hdf5_process import Described, HDF5Process

BLOCK_BYTES = 1 << 18
"""About so much is read at once of a dataset that lies in one piece; of one in chunks, a chunk."""

MAX_BLOCK_BYTES = 1 << 26
"""Of a chunk that is larger, only some rows are kept."""

KEPT_BYTES = 1 << 28
"""Blocks in memory at once: rows that are shuffled inside of a file of this size are read once."""

MAX_ROW_BYTES = 1 << 30
"""A larger row is taken for a damaged file."""

MOST_BYTES = MAX_ROW_BYTES
"""The most that is read at once: one row, or a block."""

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
        need("h5py", "HDF5 files")
        self.place = path
        self._datasets = tuple(datasets)
        self._lock = threading.Lock()
        self._process = HDF5Process(MOST_BYTES)
        self._opened: OrderedDict[str, tuple[Described, ...]] = OrderedDict()
        alone = path.endswith((".h5", ".hdf5"))
        self._files = [path] if alone else [_found(line.strip(), root) for _, line in lines_of(path)]
        if not self._files:
            raise ReadError("lists no files", place=path)
        try:
            shapes = self._all_shapes()
        except ReadError:
            self.close()
            raise
        self.groups = tuple(found[0][0] for found in shapes)
        self._starts = np.cumsum([0, *self.groups])
        self.images = len(shapes[0][0]) == 4
        self._kept: OrderedDict[tuple[int, int, int], np.ndarray] = OrderedDict()
        self._kept_bytes = 0

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
        self._opened.clear()
        self._process.end()

    def _all_shapes(self) -> list[list[tuple[int, ...]]]:
        shapes = [[described.shape for described in self._described(file)] for file in self._files]
        for file, found in zip(self._files, shapes, strict=True):
            if any(not shape or shape[0] != found[0][0] or not shape[0] for shape in found):
                raise ReadError(f"has datasets of {found}, expected the same number of rows", place=file)
            if [shape[1:] for shape in found] != [shape[1:] for shape in shapes[0]]:
                raise ReadError(f"has rows of {found}, the first file {shapes[0]}", place=file)
        return shapes

    def _row(self, file: int, part: int, row: int) -> np.ndarray:
        """Return a row of a dataset of a file, from the block that it is in."""
        name = self._files[file]
        described = self._described(name)[part]
        num_rows = _rows_of_block(described)
        key = (file, part, row // num_rows)
        if key not in self._kept:
            first = key[2] * num_rows
            last = min(first + num_rows, described.shape[0])
            block = self._read(name, part, first, last)
            self._kept[key] = block
            self._kept_bytes += block.nbytes
            while self._kept_bytes > KEPT_BYTES and len(self._kept) > 1:
                self._kept_bytes -= self._kept.popitem(last=False)[1].nbytes
        self._kept.move_to_end(key)
        values: np.ndarray = self._kept[key][row % num_rows]
        return values

    def _read(self, name: str, part: int, first: int, last: int) -> np.ndarray:
        expected = (last - first, *self._opened[name][part].shape[1:])
        num_bytes = (last - first) * self._opened[name][part].row_bytes
        block = self._process.read(name, self._datasets[part], first, last, num_bytes=num_bytes)
        if block.shape != expected:
            raise ReadError(f"gives rows of {block.shape}, expected {expected}", place=name)
        return block

    def _described(self, name: str) -> tuple[Described, ...]:
        """Return what the datasets of a file are; it is open then."""
        if name not in self._opened or not self._process.is_open(name):
            while len(self._opened) >= OPEN_FILES:
                self._process.close(self._opened.popitem(last=False)[0])
            there = self._process.open(name)
            described = [self._process.describe(name, dataset) for dataset in self._datasets]
            missing = [row for row, found in zip(self._datasets, described, strict=True) if found is None]
            if missing:
                raise ReadError(f"has no dataset {', '.join(missing)}, only {', '.join(there)}", place=name)
            self._opened[name] = tuple(found for found in described if found is not None)
            for dataset, found in zip(self._datasets, self._opened[name], strict=True):
                self._check(name, dataset, found)
        self._opened.move_to_end(name)
        return self._opened[name]

    def _check(self, name: str, dataset: str, found: Described) -> None:
        most = min(MAX_ROW_BYTES, allowed_bytes(self._process.num_bytes(name)))
        if not found.numbers or found.row_bytes > most:
            raise ReadError(
                f"dataset {dataset!r} has rows of {found.shape[1:]} of type {found.dtype}, expected "
                f"numbers, and at most {most:,} bytes a row",
                place=name,
            )


def _rows_of_block(found: Described) -> int:
    row_bytes = max(1, found.row_bytes)
    wanted = found.chunk or BLOCK_BYTES // row_bytes
    return int(max(1, min(wanted, MAX_BLOCK_BYTES // row_bytes)))


def _found(name: str, root: str) -> str:
    """Return the path of a file of a list: as it is, or below the root if it is there."""
    below = Path(root) / name
    return str(below) if root and not is_file(Path(name)) and is_file(below) else name
