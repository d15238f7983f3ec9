"""SINGA's records: kvfile and shard, an LMDB of records, and rows of text."""

from __future__ import annotations

import math
from abc import abstractmethod
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.runtime.images.decode import decode
from netweave.training.data.block_checksums import checked
from netweave.training.data.byte_file import open_bytes
from netweave.training.data.item import Item
from netweave.training.data.kvfile import SHARD, numbers_of, parse_record, scan
from netweave.training.data.location import exists, lines_of
from netweave.training.data.source import Record, Source, StoredSource
from netweave.training.data.sources.lmdb import open_entries


class _Records(StoredSource):
    """Values that are records of SINGA; ``record.cc``.

    Args:
        place: What the user calls the store.
        shape: Sizes of a record, channels first; empty for those that each says itself.
        encoded: Whether pixels are image files.
    """

    color = "rgb"  # create_data.cc of the examples writes red first

    def __init__(self, place: str, shape: Sequence[int], encoded: bool) -> None:
        self.place = place
        self._shape = tuple(shape)
        self._encoded = encoded

    @abstractmethod
    def key(self, index: int) -> str:
        """Return the key of a record."""

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: record {index} (key {self.key(index)!r})"

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return image or row of numbers, and label; an image is (height, width, channels)."""
        record = parse_record(fetched, lambda: self.describe(index))
        return self._pixels(record, index), np.asarray(record.label, np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        record = parse_record(self.fetch([index])[0], lambda: self.describe(index))
        labels = np.array([record.label], np.float32)
        if self._encoded:
            return Item(self.key(index), labels, content=record.pixel)
        return Item(self.key(index), labels, pixels=self._pixels(record, index), color=self.color)

    def _pixels(self, record: Any, index: int) -> np.ndarray:
        if self._encoded:
            return decode(record.pixel, self.color, lambda: self.describe(index))
        values = numbers_of(record, self._shape, lambda: self.describe(index))
        if record.pixel and values.ndim == 2 and not self._shape:
            return values[:, :, None]  # gray: create_data.cc of the MNIST example writes (rows, columns)
        return values.transpose(1, 2, 0) if values.ndim == 3 else values

    def _find_kind(self) -> None:
        """Say whether records are images; the first one tells, as the batch will have its sizes."""
        if not len(self):
            self.close()
            raise ReadError("has no records", place=self.place)
        self.images = self._encoded or self.peek()[0].ndim == 3


class KVFile(_Records):
    """A kvfile of 0.2 and 0.3, or a shard of 0.1, in its own order.

    Args:
        path: The file; of a folder, the ``shard.dat`` in it.
        shape: Sizes of a record, channels first; empty for those that each says itself.
        encoded: Whether pixels are image files.

    Raises:
        ReadError: The file is missing, damaged, or has no records.
    """

    def __init__(self, path: str, shape: Sequence[int] = (), encoded: bool = False) -> None:
        super().__init__(path, shape, encoded)
        inside = f"{path.rstrip('/')}/{SHARD}"
        self._file = checked(open_bytes(inside if exists(inside) else path))
        self.remote = self._file.remote
        spans = array("q")
        try:
            for key, value in scan(self._file):
                spans.extend((*key, *value))
        except ReadError:
            self.close()
            raise
        self._spans = np.array(spans).reshape(-1, 4)
        self._find_kind()

    def __len__(self) -> int:
        return len(self._spans)

    def key(self, index: int) -> str:
        """Return the key of a record."""
        offset, num_bytes = map(int, self._spans[index, :2])
        return self._file.read(offset, num_bytes).decode("utf-8", "replace")

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return the bytes of several records."""
        return self._file.read_many([(int(at), int(size)) for at, size in self._spans[list(indices), 2:]])

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class RecordLMDB(_Records):
    """An LMDB whose values are records of SINGA, in the order of their keys.

    Args:
        path: The folder of the data base, or its file.
        shape: Sizes of a record, channels first; empty for those that each says itself.
        encoded: Whether pixels are image files.

    Raises:
        ReadError: It is missing, damaged, or has no records.
    """

    def __init__(self, path: str, shape: Sequence[int] = (), encoded: bool = False) -> None:
        super().__init__(path, shape, encoded)
        self._entries = open_entries(path)
        self.remote = self._entries.remote
        self._find_kind()

    def __len__(self) -> int:
        return len(self._entries.keys)

    def key(self, index: int) -> str:
        """Return the key of a record."""
        return self._entries.keys[index].decode("utf-8", "replace")

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return the bytes of several records."""
        return self._entries.values(indices)

    def close(self) -> None:
        """Let go of the data base."""
        self._entries.close()


class TextFile(Source):
    """Rows of text, as CSVInput reads them: a label, then the numbers.

    Args:
        path: The file.
        shape: Sizes of a record; empty for one row of numbers.
        separator: What stands between the numbers.
        has_label: Whether the first number of a row is its label; without one it is 0.

    Raises:
        ReadError: The file is missing or empty, or has a row with something else, or of another length.
    """

    def __init__(
        self, path: str, shape: Sequence[int] = (), separator: str = ",", has_label: bool = True
    ) -> None:
        self.place = path
        rows: list[np.ndarray] = []
        self._lines: list[int] = []
        for number, line in lines_of(path):
            fields = line.strip().split(separator or None)
            try:
                rows.append(np.array(fields, np.float32))
            except ValueError as error:
                message = f"found {line[:60]!r}, expected numbers with {separator!r} between"
                raise ReadError(message, place=f"{path}:{number}") from error
            wanted = has_label + (math.prod(shape) if shape else len(rows[0]) - has_label)
            if len(rows[-1]) != wanted or wanted <= has_label:
                raise ReadError(
                    f"has {len(rows[-1])} numbers, expected {wanted}{', the first a label' * has_label}",
                    place=f"{path}:{number}",
                )
            self._lines.append(number)
        if not rows:
            raise ReadError("has no rows", place=path)
        values = np.stack(rows)
        self._labels = values[:, 0] if has_label else np.zeros(len(values), np.float32)
        self._values = values[:, int(has_label) :].reshape(len(values), *(shape or (-1,)))
        self.images = len(shape) == 3
        if self.images:
            self._values = self._values.transpose(0, 2, 3, 1)

    def __len__(self) -> int:
        return len(self._values)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}:{self._lines[index]}"

    def read(self, index: int) -> Record:
        """Return numbers and label; an image is (height, width, channels)."""
        return self._values[index], self._labels[index]

    def read_many(self, indices: np.ndarray) -> Record:
        """Return several records at once."""
        return self._values[indices], self._labels[indices]
