"""LMDB databases as sources."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from netweave.errors import ReadError, UnsupportedError
from netweave.files.source import MISSING
from netweave.formats.caffe.schema import caffe_schema
from netweave.graph.ops.box_geometry import centres_of_corners
from netweave.graph.ops.regions import TRUTH_COLUMNS
from netweave.runtime.images.decode import decode
from netweave.training.data.block_checksums import checked
from netweave.training.data.byte_file import ByteFile, open_bytes
from netweave.training.data.item import Item
from netweave.training.data.location import exists
from netweave.training.data.source import Record, StoredSource

# The library maps the file into memory and trusts it: a file that was cut short ends the process by SIGBUS,
# a damaged page by SIGSEGV, and neither can be caught. The format is that of lmdb.h and mdb.c 0.9
# (``MDB_page``, ``MDB_node``, ``MDB_meta``, ``MDB_db``) on 64-bit machines with the low byte first. Only
# the main data base is read, without several values of one key; Caffe writes nothing else.

_MAGIC = 0xBEEFC0DE
_HEADER_BYTES = 16
_META = struct.Struct("<II16xI44x6xH32xQQQ")
"""MDB_meta: magic, version; mm_psize; depth and root of the main data base; last page, transaction."""

_PAGE = struct.Struct("<Q2xHHH")
"""MDB_page: number, flags, lower and upper end of the free room."""

_NODE = struct.Struct("<HHHH")
"""MDB_node: low and high half of the size or of the page's number, flags, size of the key."""

_BRANCH, _LEAF, _OVERFLOW, _META_FLAG = 1, 2, 4, 8
_BIG_DATA, _SUB_DATA, _DUPLICATES = 1, 2, 4
_NO_PAGE = 2**64 - 1
_MAX_DEPTH = 32
"""Pages from the root to a leaf; mdb.c's CURSOR_STACK."""

_PAGES_AT_ONCE = 4096
"""Pages of a level that are read at once: at most some 256 MB, as a rule 16."""

_PAGE_SIZES = tuple(1 << power for power in range(9, 17))


@dataclass(frozen=True, slots=True)
class _Entry:
    """The place of a value in the file."""

    key: bytes
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Meta:
    """The newest state, as a meta page gives it.

    Attributes:
        page_bytes: Size of a page.
        root: Number of the root page; ``_NO_PAGE`` if there are no entries.
        transaction: Number of the transaction that wrote it.
    """

    page_bytes: int
    root: int
    transaction: int


class LMDBFile:
    """The entries of an LMDB, in the order of their keys.

    Args:
        file: The file; closed with this, and where it is no LMDB.
        place: What the user calls it, for messages.

    Attributes:
        keys: The keys.
        remote: Whether reading waits for another machine.

    Raises:
        ReadError: The file is cut short or damaged, or cannot be read.
        UnsupportedError: It has several values of one key, or data bases inside of it.
    """

    def __init__(self, file: ByteFile, *, place: str) -> None:
        self._place = place
        self._file = file
        self.remote = file.remote
        try:
            self._meta = self._newest_meta()
            self._entries = list(self._walk())
        except (ReadError, UnsupportedError):
            self.close()
            raise
        self.keys = [entry.key for entry in self._entries]

    def values(self, indices: Sequence[int]) -> list[bytes]:
        """Return the values of several entries.

        Raises:
            ReadError: The file cannot be read, or was cut short since it was opened.
        """
        entries = [self._entries[index] for index in indices]
        return self._read([(entry.offset, entry.num_bytes) for entry in entries])

    def parts(self, spans: Sequence[tuple[int, int, int | None]]) -> list[bytes]:
        """Return parts of the values of several entries: (index, first byte, the one after the last).

        A part that would begin behind the end is the whole value.

        Raises:
            ReadError: As ``values``.
        """
        wanted = []
        for index, first, stop in spans:
            entry = self._entries[index]
            end = entry.num_bytes if stop is None else min(stop, entry.num_bytes)
            begin = first if first <= end else 0
            wanted.append((entry.offset + begin, end - begin))
        return self._read(wanted)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, spans: Sequence[tuple[int, int]]) -> list[bytes]:
        for offset, num_bytes in spans:
            if offset + num_bytes > self._file.num_bytes:
                raise self._damaged(
                    f"bytes {offset:,} to {offset + num_bytes:,} are needed, but it has only "
                    f"{self._file.num_bytes:,}"
                )
        contents = self._file.read_many(spans)
        if any(len(content) < num_bytes for content, (_, num_bytes) in zip(contents, spans, strict=True)):
            raise self._damaged("it was truncated while it was read")
        return contents

    def _damaged(self, what: str) -> ReadError:
        return ReadError(f"cannot be opened as an LMDB: {what}; was it copied whole?", place=self._place)

    def _newest_meta(self) -> _Meta:
        first = self._meta_page(0)
        second = self._meta_page(first.page_bytes)
        if second.page_bytes != first.page_bytes:
            raise self._damaged("its two meta pages disagree on the page size")
        return second if second.transaction > first.transaction else first

    def _meta_page(self, offset: int) -> _Meta:
        (content,) = self._read([(offset, _HEADER_BYTES + _META.size)])
        flags = _PAGE.unpack_from(content)[1]
        magic, version, page_bytes, depth, root, _, transaction = _META.unpack_from(content, _HEADER_BYTES)
        if not flags & _META_FLAG or magic != _MAGIC or version != 1 or page_bytes not in _PAGE_SIZES:
            raise self._damaged(f"there is no meta page of a 64-bit LMDB at byte {offset:,}")
        if depth > _MAX_DEPTH:
            raise self._damaged(f"its pages are {depth} deep, expected at most {_MAX_DEPTH}")
        return _Meta(page_bytes, root, transaction)

    def _walk(self) -> Iterator[_Entry]:
        """Yield the entries in the order of their keys.

        Level by level, so that a data base elsewhere takes few requests: the pages of a level are known
        together. Each page may be met once.
        """
        seen: set[int] = set()
        level = [] if self._meta.root == _NO_PAGE else [self._meta.root]
        for _ in range(_MAX_DEPTH):
            below: list[int] = []
            for number, page in self._pages(level, seen):
                flags, nodes = self._nodes(page, number)
                if not flags & _LEAF:
                    below += [_page_number(page, offset) for offset in nodes]
                    continue
                if below:
                    raise self._damaged("its pages are not equally deep")
                yield from (self._entry(page, offset, number) for offset in nodes)
            level = below
        if level:
            raise self._damaged(f"its pages are deeper than {_MAX_DEPTH}, or refer to each other in a cycle")

    def _pages(self, numbers: Sequence[int], seen: set[int]) -> Iterator[tuple[int, bytes]]:
        """Yield the pages of a level."""
        size = self._meta.page_bytes
        for first in range(0, len(numbers), _PAGES_AT_ONCE):
            some = numbers[first : first + _PAGES_AT_ONCE]
            for number, page in zip(some, self._read([(n * size, size) for n in some]), strict=True):
                if number in seen:
                    raise self._damaged(f"its pages refer to page {number:,} in a cycle")
                seen.add(number)
                yield number, page

    def _nodes(self, page: bytes, number: int) -> tuple[int, list[int]]:
        """Return the kind of a page and where its nodes begin."""
        stored_number, flags, lower, upper = _PAGE.unpack_from(page)
        count = (lower - _HEADER_BYTES) // 2
        if (
            stored_number != number
            or flags & ~0x10 not in {_BRANCH, _LEAF}
            or not _HEADER_BYTES <= lower <= upper
        ):
            raise self._damaged(f"page {number:,} is damaged")
        if upper > len(page):
            raise self._damaged(f"page {number:,} is damaged")
        nodes = list(struct.unpack_from(f"<{count}H", page, _HEADER_BYTES))
        used = 0
        for offset in nodes:
            if not upper <= offset <= len(page) - _NODE.size:
                raise self._damaged(f"page {number:,} is damaged")
            used += _NODE.size + _NODE.unpack_from(page, offset)[3]
        if used > len(page):  # nodes that overlap could give one page a thousand keys of its own size
            raise self._damaged(f"page {number:,} is damaged")
        return flags, nodes

    def _entry(self, page: bytes, offset: int, number: int) -> _Entry:
        low, high, flags, key_bytes = _NODE.unpack_from(page, offset)
        num_bytes, begin = low | high << 16, offset + _NODE.size + key_bytes
        if flags & (_SUB_DATA | _DUPLICATES):
            raise UnsupportedError(
                "contains nested databases or several values per key, expected one value per key as Caffe "
                "writes it",
                place=self._place,
            )
        inside = 8 if flags & _BIG_DATA else num_bytes
        if begin + inside > len(page):
            raise self._damaged(f"page {number:,} is damaged")
        key = page[offset + _NODE.size : begin]
        start = number * len(page) + begin
        if flags & _BIG_DATA:
            start = int.from_bytes(page[begin : begin + 8], "little") * len(page) + _HEADER_BYTES
        if start + num_bytes > self._file.num_bytes:
            raise self._damaged(
                f"the value of {key[:60]!r} ends at byte {start + num_bytes:,} of {self._file.num_bytes:,}"
            )
        return _Entry(key, start, num_bytes)


def _page_number(page: bytes, offset: int) -> int:
    low, high, flags, _ = _NODE.unpack_from(page, offset)
    return int(low | high << 16 | flags << 32)


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


_HEAD_BYTES = 11
"""So many bytes hold the key and the length of a field at most."""

_DATUM = 0x0A
"""The key of the field ``datum`` of an AnnotatedDatum, which is written first."""

_AT_ONCE = 4096


class AnnotatedLMDB(LMDB):
    """Images with boxes, as SSD's ``convert_annoset`` writes them (AnnotatedDatum).

    Args:
        path: As for ``LMDB``.
        color: Likewise.
        names: Names of the classes, which images in a folder would need in its place; records have numbers.

    Raises:
        ReadError: As ``LMDB``, or the annotations of a record cannot be read.
        UnsupportedError: As ``LMDB``.
    """

    boxes = True
    truth_rows = True

    def __init__(self, path: str, color: str = "native", names: Sequence[str] = ()) -> None:
        super().__init__(path, color)
        del names
        self._rows = 1
        for first in range(0, len(self), _AT_ONCE):
            some = range(first, min(first + _AT_ONCE, len(self)))
            self._rows = max(self._rows, *map(len, self._annotations(some)))

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and boxes, as many rows for every image."""
        message = self._message(index, fetched)
        rows = np.zeros((self._rows, TRUTH_COLUMNS), np.float32)
        boxes = _boxes(message)
        rows[: len(boxes)] = boxes
        return self._pixels(message.datum, index), rows

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it: the boxes in one row."""
        message = self._message(index, self.fetch([index])[0])
        labels = _boxes(message).reshape(-1)
        name = self._keys[index].decode("utf-8", "replace")
        if message.datum.encoded:
            return Item(name, labels, content=message.datum.data)
        return Item(name, labels, pixels=self._pixels(message.datum, index))

    def _annotations(self, indices: Sequence[int]) -> Iterator[np.ndarray]:
        """Yield the boxes of records, without reading their images."""
        starts = []
        for index, head in zip(
            indices, self._file.parts([(index, 0, _HEAD_BYTES) for index in indices]), strict=True
        ):
            starts.append((index, _end_of_datum(head), None))
        for (index, _, _), content in zip(starts, self._file.parts(starts), strict=True):
            yield _boxes(self._message(index, content))

    def _message(self, index: int, content: bytes) -> Any:
        try:
            return caffe_schema().wire_class("AnnotatedDatum").FromString(content)
        except DecodeError as error:
            raise ReadError(
                "is not a complete AnnotatedDatum: truncated, damaged, or of another type",
                place=self.describe(index),
            ) from error


def _end_of_datum(head: bytes) -> int:
    """Return where the annotations of a record begin; 0 if the image does not stand first."""
    if head[:1] != bytes([_DATUM]):
        return 0
    length = 0
    for place, byte in enumerate(head[1:]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return 2 + place + length
    return 0


def _boxes(message: Any) -> np.ndarray:
    """Return the boxes of an AnnotatedDatum as ``Source.boxes`` has them; those without area are left out."""
    rows = [
        (box.xmin, box.ymin, box.xmax, box.ymax, group.group_label, box.difficult)
        for group in message.annotation_group
        for box in (annotation.bbox for annotation in group.annotation)
        if box.xmax > box.xmin and box.ymax > box.ymin
    ]
    table = np.array(rows, np.float32).reshape(-1, TRUTH_COLUMNS)
    return np.concatenate([centres_of_corners(table[:, :4], np), table[:, 4:]], axis=1)


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
