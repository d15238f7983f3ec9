"""MNIST's idx files: one of gray images, and one of labels beside it."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ShapeError
from netweave.training.data.writers.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files.atomic import Replacement
    from netweave.training.data.item import Item


class IdxWriter(Writer):
    """The labels go into a file beside that of the images: ``images`` in its name becomes ``labels``.

    Args:
        target: The file of images to be made; without ``images`` in its name, that of labels is called as
            it is with ``-labels`` at the end.
    """

    splittable = False  # the count of images is at the beginning, and the labels in another file

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
        self._images: list[np.ndarray] = []
        self._labels: list[int] = []

    def encode(self, item: Item, number: int) -> tuple[tuple[np.ndarray, int], int]:
        """Return gray pixels and label of a record."""
        pixels = item.decoded("gray")[:, :, 0]
        if self._images and pixels.shape != self._images[0].shape:
            message = f"is {pixels.shape}, the first record {self._images[0].shape}; resize all to one size"
            raise ShapeError(message, place=item.name)
        return (pixels, item.class_number(np.uint8)), pixels.size

    def put(self, encoded: tuple[np.ndarray, int]) -> None:
        """Keep a record until all are there."""
        pixels, label = encoded
        self._images.append(pixels)
        self._labels.append(label)

    def complete(self) -> None:
        """Write the images and the labels."""
        write_idx(self.unfinished, np.array(self._images, np.uint8))
        name = self.target.name
        labels = name.replace("images", "labels").replace("idx3", "idx1")
        labels = labels if labels != name else f"{name}-labels"
        write_idx(self.unfinished.with_name(labels), np.array(self._labels, np.uint8))

    def abandon(self) -> None:
        """Let go of the records."""
        self._images.clear()


def write_idx(path: Path, array: np.ndarray) -> None:
    """Write an array of uint8 as an idx file."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.tobytes())
