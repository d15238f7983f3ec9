"""Caffe's data bases: an LMDB of Datum messages, raw or encoded."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.message import DecodeError

from netweave.errors import ReadError, UnsupportedError
from netweave.files.source import MISSING
from netweave.formats.caffe.schema import caffe_schema
from netweave.runtime.images.decode import decode
from netweave.training.data.block_checksums import checked
from netweave.training.data.byte_file import open_bytes
from netweave.training.data.item import Item
from netweave.training.data.location import exists
from netweave.training.data.source import Record, StoredSource
from netweave.training.data.sources.lmdb_file import LMDBFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.training.data.byte_file import ByteFile

NO_DATUM = "is not a complete Datum: truncated, damaged, or of another type"


class LMDB(StoredSource):
    """Records in the order of their keys, as Caffe's cursor goes.

    Args:
        path: The folder of the data base (or the file, where it has no folder).
        color: How encoded images are decoded; ``native`` as Caffe does unless it is told otherwise.

    Raises:
        ReadError: There is no such data base, or it has no records.
        UnsupportedError: It is a LevelDB.
    """

    images = True

    def __init__(self, path: str, color: str = "native") -> None:
        self.place = path
        self._color = color
        self._file = open_entries(path)
        self.remote = self._file.remote
        self._keys = self._file.keys

    def __len__(self) -> int:
        return len(self._keys)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: record {index} (key {self._keys[index].decode('utf-8', 'replace')!r})"

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return the bytes of several records."""
        return self._file.values(indices)

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and label."""
        datum = self._datum(index, fetched)
        return self._pixels(datum, index), np.asarray(datum.label, np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        datum = self._datum(index, self.fetch([index])[0])
        labels = np.array([datum.label], np.float32)
        name = self._keys[index].decode("utf-8", "replace")
        if datum.encoded:
            return Item(name, labels, content=datum.data)
        return Item(name, labels, pixels=self._pixels(datum, index))

    def close(self) -> None:
        """Let go of the data base."""
        self._file.close()

    def _datum(self, index: int, content: bytes) -> Any:
        try:
            return datum_class().FromString(content)
        except DecodeError as error:
            raise ReadError(NO_DATUM, place=self.describe(index)) from error

    def _pixels(self, datum: Any, index: int) -> np.ndarray:
        if datum.encoded:
            return decode(datum.data, self._color, lambda: self.describe(index))
        shape = (datum.channels, datum.height, datum.width)
        if datum.data:
            values = np.frombuffer(datum.data, np.uint8)
        else:
            values = np.asarray(datum.float_data, np.float32)
        if not values.size or values.size != math.prod(shape):
            raise ReadError(f"has {values.size:,} values, but declares {shape}", place=self.describe(index))
        return values.reshape(shape).transpose(1, 2, 0)


def open_entries(path: str) -> LMDBFile:
    """Open an LMDB, here or elsewhere.

    Args:
        path: The folder of the data base, or its file.

    Raises:
        ReadError: There is no such data base, it is damaged, or has no records.
        UnsupportedError: It is a LevelDB.
    """
    if exists(f"{path.rstrip('/')}/CURRENT"):
        raise UnsupportedError(
            "is a LevelDB, expected an LMDB; convert it (write the same records with backend LMDB)",
            place=path,
        )
    entries = LMDBFile(_open(path), place=path)
    if not entries.keys:
        entries.close()
        raise ReadError("is an LMDB without records", place=path)
    return entries


def _open(path: str) -> ByteFile:
    inside = f"{path.rstrip('/')}/data.mdb"
    if not exists(path) and not exists(inside):  # a store of objects knows no folders
        raise ReadError(MISSING, place=path)
    try:
        return checked(open_bytes(inside if exists(inside) else path))
    except ReadError as error:
        raise ReadError(f"cannot be opened as an LMDB: {error.message}", place=path) from error


@cache
def datum_class() -> Any:
    """Return the class of Datum messages."""
    return caffe_schema().wire_class("Datum")
