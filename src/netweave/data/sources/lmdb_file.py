"""Reading the file of an LMDB by its pages, each checked before it is used.

The library maps the file into memory and trusts it: a file that was cut short ends the process by SIGBUS, a
damaged page by SIGSEGV, and neither can be caught. The format is that of lmdb.h and mdb.c 0.9 (``MDB_page``,
``MDB_node``, ``MDB_meta``, ``MDB_db``) on 64-bit machines with the low byte first. Only the main data base
is read, without several values of one key; Caffe writes nothing else.
"""

from __future__ import annotations

import os
import stat
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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

_PAGE_SIZES = tuple(1 << power for power in range(9, 17))


@dataclass(frozen=True, slots=True)
class _Entry:
    """Where a value lies in the file."""

    key: bytes
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class _Meta:
    """What a meta page says of the newest state.

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
        path: The folder of the data base, or its file.
        place: What the user calls it, for messages.

    Attributes:
        keys: The keys.

    Raises:
        ReadError: The file is missing, cut short or damaged.
        UnsupportedError: It has several values of one key, or data bases inside of it.
    """

    def __init__(self, path: Path, *, place: str) -> None:
        self._place = place
        self._descriptor = -1
        try:
            file = path / "data.mdb" if path.is_dir() else path
            self._descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block
            status = os.fstat(self._descriptor)
        except (OSError, ValueError) as error:
            self.close()
            reason = error.strerror if isinstance(error, OSError) else error
            raise ReadError(f"cannot be opened as an LMDB: {reason}", place=place) from error
        self._num_bytes = status.st_size
        try:
            if not stat.S_ISREG(status.st_mode):
                raise self._damaged("it is a pipe or a device, expected a file")
            self._meta = self._newest_meta()
            self._entries = list(self._walk())
        except (ReadError, UnsupportedError):
            self.close()
            raise
        self.keys = [entry.key for entry in self._entries]

    def value(self, index: int) -> bytes:
        """Return the value of an entry.

        Raises:
            ReadError: The file cannot be read, or was cut short since it was opened.
        """
        entry = self._entries[index]
        return self._read(entry.offset, entry.num_bytes)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read(self, offset: int, num_bytes: int) -> bytes:
        if offset + num_bytes > self._num_bytes:
            raise self._damaged(
                f"bytes {offset:,} to {offset + num_bytes:,} are needed, but it has only {self._num_bytes:,}"
            )
        pieces, end = [], offset + num_bytes
        while offset < end:
            try:
                piece = os.pread(self._descriptor, end - offset, offset)
            except OSError as error:
                raise ReadError(f"cannot be read: {error.strerror}", place=self._place) from error
            if not piece:
                raise self._damaged("it was truncated while it was read")
            pieces.append(piece)
            offset += len(piece)
        return b"".join(pieces)

    def _damaged(self, what: str) -> ReadError:
        return ReadError(f"cannot be opened as an LMDB: {what}; was it copied whole?", place=self._place)

    def _newest_meta(self) -> _Meta:
        first = self._meta_page(0)
        second = self._meta_page(first.page_bytes)
        if second.page_bytes != first.page_bytes:
            raise self._damaged("its two meta pages disagree on the page size")
        return second if second.transaction > first.transaction else first

    def _meta_page(self, offset: int) -> _Meta:
        content = self._read(offset, _HEADER_BYTES + _META.size)
        flags = _PAGE.unpack_from(content)[1]
        magic, version, page_bytes, depth, root, _, transaction = _META.unpack_from(content, _HEADER_BYTES)
        if not flags & _META_FLAG or magic != _MAGIC or version != 1 or page_bytes not in _PAGE_SIZES:
            raise self._damaged(f"there is no meta page of a 64-bit LMDB at byte {offset:,}")
        if depth > _MAX_DEPTH:
            raise self._damaged(f"its pages are {depth} deep, expected at most {_MAX_DEPTH}")
        return _Meta(page_bytes, root, transaction)

    def _walk(self) -> Iterator[_Entry]:
        """Yield the entries by a walk through the pages from the root, each of which may be met once."""
        seen: set[int] = set()
        stack = [] if self._meta.root == _NO_PAGE else [(self._meta.root, 1)]
        while stack:
            number, depth = stack.pop()
            if number in seen or depth > _MAX_DEPTH:
                raise self._damaged(f"its pages refer to page {number:,} in a cycle")
            seen.add(number)
            page = self._read(number * self._meta.page_bytes, self._meta.page_bytes)
            flags, nodes = self._nodes(page, number)
            if flags & _LEAF:
                for offset in nodes:
                    yield self._entry(page, offset, number)
            else:
                below = [_page_number(page, offset) for offset in nodes]
                stack += [(child, depth + 1) for child in reversed(below)]

    def _nodes(self, page: bytes, number: int) -> tuple[int, list[int]]:
        """Return the kind of a page and where its nodes begin."""
        found, flags, lower, upper = _PAGE.unpack_from(page)
        count = (lower - _HEADER_BYTES) // 2
        if found != number or flags & ~0x10 not in {_BRANCH, _LEAF} or not _HEADER_BYTES <= lower <= upper:
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
        if start + num_bytes > self._num_bytes:
            raise self._damaged(
                f"the value of {key[:60]!r} ends at byte {start + num_bytes:,} of {self._num_bytes:,}"
            )
        return _Entry(key, start, num_bytes)


def _page_number(page: bytes, offset: int) -> int:
    low, high, flags, _ = _NODE.unpack_from(page, offset)
    return int(low | high << 16 | flags << 32)
