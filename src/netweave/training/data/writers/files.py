"""Writers of data files."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from netweave.errors import ShapeError
from netweave.files.output_files import Replacement
from netweave.installation import need
from netweave.training.data.block_checksums import write_checksums
from netweave.training.data.item import Item
from netweave.training.data.kvfile import frame, record_class
from netweave.training.data.sources.lmdb import datum_class
from netweave.training.data.writers.writer import Room, Writer


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


class KVFileWriter(Writer):
    """Pixels are planes, red first, since SINGA decodes no image files; other numbers are floats.

    Args:
        target: The file to be made.
        new: Where files are until all are complete.
    """

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
        self._file = self.unfinished.open("wb")

    def encode(self, item: Item, number: int) -> tuple[bytes, int]:
        """Return key and record as the file has them."""
        pixels = item.decoded("rgb")
        record = record_class()()
        record.label = item.class_number(np.int32)
        if pixels.ndim == 3:
            rgb = item.content is not None or item.color == "rgb" or pixels.shape[2] != 3
            pixels = (pixels if rgb else pixels[:, :, ::-1]).transpose(2, 0, 1)
        record.shape.extend(pixels.shape)
        if pixels.dtype == np.uint8:
            record.pixel = pixels.tobytes()
        else:
            record.data.append(np.ascontiguousarray(pixels, "<f4").tobytes())
        content = frame(f"{number:08d}".encode(), record.SerializeToString())
        return content, len(content)

    def put(self, encoded: bytes) -> None:
        """Write a record."""
        self._file.write(encoded)

    def complete(self) -> None:
        """Close the file, and write its checksums."""
        self._file.close()
        write_checksums(self.unfinished)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()


COMMIT_RECORDS = 1000
"""Records of one transaction, as in Caffe's tools."""

PAGE_BYTES = 4096

SPARE_BYTES = 32 * PAGE_BYTES
"""Of the room that is kept for the inner pages of a transaction."""

ROOM_BYTES = 1 << 40
"""Address space for the file, which grows as it is written; it is no room on the disk."""


class LMDBWriter(Writer):
    """Keys are the number of the record and the name of its file, so that their order is that of writing.

    Args:
        target: The folder to be made.
        new: Where files are until all are complete.
    """

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
        lmdb = need("lmdb", "data bases of Caffe")
        self.num_bytes = 4 * PAGE_BYTES  # the two heads, a leaf, and the list of free pages
        self.unfinished.mkdir()
        room = Room(self.unfinished / "data.mdb")
        room.reserve(SPARE_BYTES)
        room.release(0)
        # nobody else opens it: without a file of locks, which is mapped and ends the process on a full disk
        self._environment = lmdb.open(str(self.unfinished), map_size=ROOM_BYTES, writemap=False, lock=False)
        self._room = Room(self.unfinished / "data.mdb")
        self._begin()

    def _begin(self) -> None:
        self._transaction = self._environment.begin(write=True)
        self._pending_bytes = SPARE_BYTES
        self._room.reserve(self._stored_bytes() + self._pending_bytes)

    def _stored_bytes(self) -> int:
        """Return the size of the file as far as it is in use."""
        return int(self._environment.info()["last_pgno"] + 1) * PAGE_BYTES

    def encode(self, item: Item, number: int) -> tuple[tuple[bytes, bytes], int]:
        """Return key and Datum: encoded where it is a file, raw where it is pixels."""
        datum = datum_class()()
        datum.label = item.class_number(np.int32)
        if item.pixels is None:
            datum.data, datum.encoded = item.encoded(), True
        else:
            planes = item.planes()
            datum.channels, datum.height, datum.width = planes.shape
            if planes.dtype == np.uint8:
                datum.data = planes.tobytes()
            else:
                datum.float_data.extend(planes.ravel().tolist())
        key = f"{number:08d}_{item.name}" if item.name else f"{number:08d}"
        value = datum.SerializeToString()
        return (key.encode(), value), _room_bytes(len(key) + len(value))

    def put(self, encoded: tuple[bytes, bytes]) -> None:
        """Write a record."""
        key, value = encoded
        self._pending_bytes += 2 * _room_bytes(len(key) + len(value))  # a page that is full becomes two
        self._room.reserve(self._stored_bytes() + self._pending_bytes)
        self._transaction.put(key, value)
        if (self.count + 1) % COMMIT_RECORDS == 0:
            self._transaction.commit()
            self._begin()

    def complete(self) -> None:
        """Close the data base."""
        self._transaction.commit()
        self._environment.sync()
        num_bytes = self._stored_bytes()
        self._environment.close()
        self._room.release(num_bytes)
        write_checksums(self.unfinished / "data.mdb")

    def abandon(self) -> None:
        """Close the data base."""
        self._transaction.abort()
        self._environment.close()
        self._room.close()


def _room_bytes(num_bytes: int) -> int:
    """Return the room of a record in the file: large values have pages of their own."""
    return num_bytes + 8 if num_bytes < PAGE_BYTES // 2 else -(-(num_bytes + 16) // PAGE_BYTES) * PAGE_BYTES
