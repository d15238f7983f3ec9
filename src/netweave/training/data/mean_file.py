"""The mean of all images that are packed, as a file that nets subtract."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ShapeError, UsageError
from netweave.files.output_files import write_file, writing
from netweave.formats.caffe.schema import caffe_schema
from netweave.training.data.kvfile import frame, record_class

if TYPE_CHECKING:
    from netweave.training.data.item import Item


class MeanImage:
    """Adds up images, and writes their mean: for Caffe (``.binaryproto``, blue first) or SINGA (red first).

    Caffe's is what ``compute_image_mean`` writes; SINGA's a kvfile of one record, from ``make create``.

    Args:
        path: The file; the end of its name says for whom it is.

    Raises:
        UsageError: It is there already.
    """

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise UsageError(f"{path} is there already; remove it or give another name")
        self._path = path
        self._caffe = path.suffix == ".binaryproto"
        self._sum: np.ndarray | None = None
        self._count = 0

    def add(self, item: Item) -> None:
        """Add an image.

        Raises:
            ReadError: Its file is none.
            ShapeError: It is of another size than the first.
        """
        wanted = "bgr" if self._caffe else "rgb"
        pixels = item.decoded(wanted).astype(np.float64)
        if item.pixels is not None and pixels.ndim == 3 and pixels.shape[2] == 3 and item.color != wanted:
            pixels = pixels[:, :, ::-1]
        if self._sum is None:
            self._sum = np.zeros_like(pixels)
        if pixels.shape != self._sum.shape:
            raise ShapeError(
                f"is {pixels.shape}, the first record {self._sum.shape}; resize all to one size",
                place=item.name,
            )
        self._sum += pixels
        self._count += 1

    def write(self) -> None:
        """Write the file.

        Raises:
            WriteError: It cannot be written.
        """
        assert self._sum is not None
        means = (self._sum / self._count).astype("<f4")
        planes = means.transpose(2, 0, 1) if means.ndim == 3 else means
        if self._caffe:
            blob = caffe_schema().wire_class("BlobProto")()
            sizes = (*(1,) * (4 - planes.ndim), *planes.shape)
            blob.num, blob.channels, blob.height, blob.width = sizes
            blob.data.append(planes.tobytes())
            content = blob.SerializeToString()
        else:
            record = record_class()()
            record.shape.extend(planes.shape)
            record.data.append(planes.tobytes())
            content = frame(b"mean", record.SerializeToString())
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self._path, content)
