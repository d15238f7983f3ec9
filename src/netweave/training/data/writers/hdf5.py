"""Caffe's HDF5 data: datasets ``data`` and ``label``, float32."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ShapeError
from netweave.files.output_files import Replacement
from netweave.installation import need
from netweave.training.data.writers.writer import Room, Writer

if TYPE_CHECKING:
    from netweave.training.data.item import Item


CHUNK_BYTES = 1 << 16
"""About so large is a chunk: it is what is read at once."""


OWN_BYTES = 8192
"""About what HDF5 writes besides."""

SPARE_BYTES = 1 << 17
"""Of the room that is kept for what HDF5 writes when it closes the file."""


class HDF5Writer(Writer):
    """All images have one size, that of the first.

    Args:
        target: The ``.h5`` file to be made.
        new: Where files are until all are complete.
    """

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
        self._file = need("h5py", "HDF5 files").File(self.unfinished, "w")
        self._room = Room(self.unfinished)
        self._room.reserve(SPARE_BYTES)
        self.num_bytes = CHUNK_BYTES + OWN_BYTES  # the last chunk takes its room though it is not full

    def encode(self, item: Item, number: int) -> tuple[tuple[np.ndarray, np.ndarray, str], int]:
        """Return the numbers of a record: planes of float32, or as they are; its labels; and its name."""
        pixels = item.decoded()
        values = (item.planes() if pixels.ndim == 3 else pixels).astype(np.float32)
        labels = np.asarray(item.labels, np.float32)
        return (values, labels, item.name), values.nbytes + labels.nbytes

    def put(self, encoded: tuple[np.ndarray, np.ndarray, str]) -> None:
        """Write a record."""
        values, labels, place = encoded
        row_bytes = values.nbytes + labels.nbytes
        self._room.reserve(SPARE_BYTES + self.num_bytes + row_bytes + self.num_bytes // 16)
        # whole rows, so that reading one row reads one chunk; h5py would cut rows into pieces
        rows = max(1, CHUNK_BYTES // max(1, values.nbytes))
        for name, row in (("data", values), ("label", labels)):
            if not self.count:
                shape, chunk = (None, *row.shape), (rows, *row.shape)
                self._file.create_dataset(name, (0, *row.shape), "<f4", maxshape=shape, chunks=chunk)
            kept = self._file[name]
            if kept.shape[1:] != row.shape:
                message = f"is {row.shape}, the first record {kept.shape[1:]}; resize all to one size"
                raise ShapeError(message, place=place)
            kept.resize(self.count + 1, axis=0)
            kept[self.count] = row

    def complete(self) -> None:
        """Close the file, and give back the room that it does not need."""
        self._file.flush()
        num_bytes = self._file.id.get_filesize()
        self._file.close()
        self._room.release(num_bytes)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
        self._room.close()
