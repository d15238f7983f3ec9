"""Packing: the records of any source into one file or data base, and the mean of their images."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ShapeError, UsageError
from netweave.files.output_files import write_file, writing
from netweave.formats.caffe.schema import caffe_schema
from netweave.training.data.kvfile import frame, record_class
from netweave.training.data.order import Order
from netweave.training.data.writers import make_writer

if TYPE_CHECKING:
    from netweave.training.data.item import Item
    from netweave.training.data.source import Source
    from netweave.training.data.transforms.geometry import Resize


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


def pack(
    source: Source,
    target: Path,
    kind: str,
    *,
    resize: Resize | None = None,
    shuffle: bool = False,
    seed: int = 0,
    gray: bool = False,
    encode: bool = False,
    suffix: str = ".png",
    quality: int = 95,
    split_bytes: int | None = None,
    mean: Path | None = None,
) -> int:
    """Write the records of a source; return how many.

    An image that is a file stays the file it is, unless it is resized or made gray. A kind that can hold
    bare pixels (``lmdb``, ``hdf5``, ``mnist``, ``kvfile``) is given them where there is no file.

    Args:
        source: The records.
        target: File or folder to be made.
        kind: One of ``WRITERS``.
        resize: What is done to each image first.
        shuffle: Whether they are written in a random order.
        seed: Of that order.
        gray: Whether images are kept as one channel.
        encode: Whether pixels become files also where the kind can hold them bare.
        suffix: What pixels are encoded as, where they are.
        quality: Of JPEG, 1 to 100.
        split_bytes: Largest size of a file, where records are spread over several; None for one.
        mean: File for the mean of all images, as they are packed; None for none.

    Raises:
        UsageError: There is no such kind, or the target is there already.
        SourceError: A record cannot be read; nothing is left behind.
        WriteError: The target cannot be written; nothing is left behind.
    """
    means = MeanImage(mean) if mean else None
    order = Order(num_records=len(source), batch_size=1, shuffle=shuffle, seed=seed, groups=source.groups)
    with make_writer(kind, target, split_bytes=split_bytes, suffix=suffix, quality=quality) as writer:
        for place, index in enumerate(order.epoch(0).tolist()):
            item = source.item(index)
            item = item.in_gray() if gray else item
            item = item.resized(resize, order.generator(place)) if resize else item
            if means:
                means.add(item)
            writer.write(item.as_file(suffix, quality) if encode else item)
        writer.finish()
        if means:
            means.write()
        return writer.count
