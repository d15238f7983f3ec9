"""Arrays in memory, and the files that are read into memory whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files.npy import parse_npy, read_npz
from netweave.training.data.location import read_file
from netweave.training.data.source import Record, Source

if TYPE_CHECKING:
    from collections.abc import Sequence


class Arrays(Source):
    """Arrays whose first axis counts the records; the first, if of four axes, holds images (N, C, H, W).

    Args:
        arrays: One for each part of a record.
        names: What they are called, for messages.
        images: Whether the first holds images; None to tell by its axes.

    Raises:
        UsageError: They have different numbers of records, or none.
    """

    def __init__(self, *arrays: Any, names: Sequence[str] = (), images: bool | None = None) -> None:
        self._arrays = tuple(np.asarray(array) for array in arrays)
        self.place = " and ".join(names) or "arrays in memory"
        four_axes = bool(self._arrays) and self._arrays[0].ndim == 4
        self.images = four_axes if images is None else images
        counts = [len(array) if array.ndim else 0 for array in self._arrays]
        if len(set(counts)) != 1 or not counts[0]:
            raise UsageError(f"{self.place}: have {counts} records, expected equal numbers, at least 1")

    def __len__(self) -> int:
        return len(self._arrays[0])

    def read(self, index: int) -> Record:
        """Return a record; an image is (height, width, channels)."""
        first, *rest = (array[index] for array in self._arrays)
        return (first.transpose(1, 2, 0) if self.images else first, *rest)

    def read_many(self, indices: np.ndarray) -> Record:
        """Return several records; images are (number, height, width, channels)."""
        first, *rest = (array[indices] for array in self._arrays)
        return (first.transpose(0, 2, 3, 1) if self.images else first, *rest)


class NumpyFiles(Arrays):
    """Arrays of ``.npy`` files, or of one ``.npz`` file by name.

    Args:
        paths: The ``.npy`` files, one for each part; or one ``.npz`` file.
        names: Names of the arrays in a ``.npz`` file, one for each part; all in their order if empty.

    Raises:
        ReadError: A file is missing or of another kind, or has no such array.
    """

    def __init__(self, paths: Sequence[str], names: Sequence[str] = ()) -> None:
        arrays: list[np.ndarray] = []
        for path in paths:
            arrays.extend(_load(path, names))
        try:
            super().__init__(*arrays, names=paths)
        except UsageError as error:
            raise ReadError(str(error).partition(": ")[2], place=" and ".join(paths)) from error


def _load(path: str, names: Sequence[str]) -> list[np.ndarray]:
    content = read_file(path)
    if not content.startswith(b"PK"):
        return [parse_npy(content, place=path)]
    arrays = read_npz(content, place=path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ReadError(f"has no array {missing[0]!r}, only {', '.join(arrays)}", place=path)
    return [arrays[name] for name in names or arrays]
