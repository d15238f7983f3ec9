"""MXNet's image records: ``.rec``, with ``.idx`` or without."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.runtime.images.decode import decode
from netweave.training.data.block_checksums import check_content, checked
from netweave.training.data.byte_file import open_bytes
from netweave.training.data.item import Item
from netweave.training.data.location import exists, is_remote, lines_of, read_file
from netweave.training.data.recordio import FIRST, LAST, MIDDLE, WHOLE, Packed, head, padded, unframe, unpack
from netweave.training.data.source import Record, StoredSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.training.data.byte_file import Span


OFFSET = re.compile("[0-9]{1,18}")
"""What an index may say: no more than fits into 64 bits."""

LARGE_BYTES = 8 << 20
"""From this size on the length of a record is looked up before it is read."""


class RecordIO(StoredSource):
    """Records in the order of the index, or of the file where there is none.

    Without an index, opening goes through the whole file once to find where records begin.

    Args:
        path: The ``.rec`` file.
        index: The ``.idx`` file; None for the one beside it, if there is one.
        color: How images are decoded; MXNet's order is ``rgb``.
        label_width: Numbers in a label, >= 1; 0 where each record has as many as it needs.
        labels: A list (``.lst``) whose labels replace those in the records, by number of the record.

    Raises:
        ReadError: A file is missing, damaged, or the index is of another file.
    """

    images = True

    def __init__(
        self,
        path: str,
        index: str | None = None,
        color: str = "rgb",
        label_width: int = 1,
        labels: str | None = None,
    ) -> None:
        self.place = path
        self._color = color
        self._label_width = label_width
        self._file = checked(open_bytes(path))
        self.remote = self._file.remote
        if not self._file.num_bytes:
            self.close()
            raise ReadError("the file is empty; was it copied or downloaded whole?", place=path)
        self._starts, self._ends = self._spans(index)
        self._labels = _labels(labels, label_width) if labels else None
        if not len(self._starts):
            raise ReadError("has no records", place=path)

    def __len__(self) -> int:
        return len(self._starts)

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return the bytes of several records."""
        return self._file.read_many([self._span(index) for index in indices])

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and label; a label of width 1 is a number."""
        packed, labels = self._packed(index, fetched)
        pixels = decode(packed.content, self._color, lambda: self.describe(index))
        return pixels, np.asarray(labels if self._label_width > 1 else labels[0], np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        packed, labels = self._packed(index, self.fetch([index])[0])
        return Item(str(packed.identity), labels, content=packed.content)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _packed(self, index: int, frame: bytes) -> tuple[Packed, np.ndarray]:
        place = self.describe(index)
        try:
            packed = unpack(unframe(frame))
        except ValueError as error:
            raise ReadError(str(error), place=place) from error
        labels = packed.labels if self._labels is None else self._labels.get(packed.identity)
        if labels is None or labels.size != (self._label_width or labels.size):
            found = "none" if labels is None else str(labels.size)
            wanted = self._label_width or "some"
            raise ReadError(f"has {found} labels, expected {wanted} (label_width)", place=place)
        return packed, labels

    def _span(self, index: int) -> Span:
        """Return where a record lies; behind it may lie others that the index leaves out."""
        start, end = int(self._starts[index]), int(self._ends[index])
        if end - start > LARGE_BYTES:
            end = self._end_of(start)
        return start, end - start

    def _end_of(self, start: int) -> int:
        at = start
        while True:
            try:
                flag, length = head(self._file.read(at, 8))
            except ValueError:
                return at + 8  # so that what is wrong is said when the record is parsed
            at += 8 + padded(length)
            if flag in {WHOLE, LAST}:
                return at

    def _spans(self, index: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the first byte of each record, and an upper bound of its last."""
        if index is None:
            beside = _index_beside(self.place)
            index = beside if exists(beside) else None
        if index is None:
            starts = np.array(self._scan(), np.int64)
            return starts, np.append(starts[1:], self._file.num_bytes)
        starts = np.array([offset for _, offset in _index(index)], np.int64)
        bounds = np.append(np.unique(starts), self._file.num_bytes)
        wrong = starts >= self._file.num_bytes
        if wrong.any():
            raise ReadError(
                f"names byte {starts[wrong][0]:,} of {self.place}, which has {self._file.num_bytes:,}; "
                "is it the index of this file?",
                place=index,
            )
        return starts, bounds[np.searchsorted(bounds, starts, side="right")]

    def _scan(self) -> array[int]:
        starts, at = array("q"), 0
        while at < self._file.num_bytes:
            try:
                flag, length = head(self._file.read(at, 8))
            except ValueError as error:
                raise ReadError(f"the record at byte {at:,} {error}", place=self.place) from error
            if flag not in {MIDDLE, FIRST + MIDDLE}:
                starts.append(at)
            at += 8 + padded(length)
        return starts


def _index_beside(path: str) -> str:
    if not is_remote(path):
        return str(Path(path).with_suffix(".idx"))
    head, dot, _ = path.rpartition(".")
    return f"{head if dot else path}.idx"


def _index(path: str) -> list[tuple[str, int]]:
    if not is_remote(path):
        check_content(path, read_file(path))
    found = []
    for number, line in lines_of(path):
        key, _, offset = line.partition("\t")
        offset = offset.strip()
        if not OFFSET.fullmatch(offset):
            raise ReadError(f"found {line!r}, expected a key, a tab and a byte", place=f"{path}:{number}")
        found.append((key, int(offset)))
    return found


def _labels(path: str, width: int) -> dict[int, np.ndarray]:
    found = {}
    for number, line in lines_of(path):
        fields = line.split("\t")
        try:
            found[int(fields[0])] = np.array([float(field) for field in fields[1:-1]], np.float32)
        except ValueError as error:
            message = f"found {line!r}, expected number, {width} labels and file, with tabs between"
            raise ReadError(message, place=f"{path}:{number}") from error
    return found
