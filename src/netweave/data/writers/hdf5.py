"""Caffe's HDF5 data: datasets ``data`` and ``label``, float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.data.extras import need
from netweave.data.writers.writer import Writer
from netweave.errors import ShapeError

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.data.item import Item


CHUNK_BYTES = 1 << 16
"""About so large is a chunk: it is what is read at once."""


class HDF5Writer(Writer):
    """All images have one size, that of the first.

    Args:
        target: The ``.h5`` file to be made.
    """

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self._file = need("h5py", "HDF5 files").File(self.unfinished, "w")

    def put(self, item: Item) -> None:
        """Write a record: planes of float32, or the numbers as they are."""
        pixels = item.decoded()
        values = (item.planes() if pixels.ndim == 3 else pixels).astype(np.float32)
        for name, row in (("data", values), ("label", np.asarray(item.labels, np.float32))):
            if not self.count:
                # whole rows, so that reading one row reads one chunk; h5py would cut rows into pieces
                chunk = (max(1, CHUNK_BYTES // max(1, row.nbytes)), *row.shape)
                shape = (None, *row.shape)
                self._file.create_dataset(name, (0, *row.shape), "<f4", maxshape=shape, chunks=chunk)
            kept = self._file[name]
            if kept.shape[1:] != row.shape:
                message = f"is {row.shape}, the first record {kept.shape[1:]}; resize all to one size"
                raise ShapeError(message, place=item.name)
            kept.resize(self.count + 1, axis=0)
            kept[self.count] = row

    def finish(self) -> None:
        """Close the file and move it to its place."""
        self._file.close()
        self.unfinished.rename(self.target)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
