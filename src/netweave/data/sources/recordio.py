"""MXNet's image records: ``.rec``, with ``.idx`` or without."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from netweave.data.decode import decode
from netweave.data.item import Item
from netweave.data.location import MISSING, is_remote, lines_of, read_file
from netweave.data.recordio import FIRST, MIDDLE, Packed, head, padded, unframe, unpack
from netweave.data.source import Record, Source
from netweave.errors import ReadError


class RecordIO(Source):
    """Records in the order of the index, or of the file where there is none.

    Args:
        path: The ``.rec`` file.
        index: The ``.idx`` file; None for the one beside it, if there is one.
        color: How images are decoded; MXNet's order is ``rgb``.
        label_width: Numbers in a label, >= 1.
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
        self._content = _content(path)
        self._starts, self._ends = self._spans(index)
        self._labels = _labels(labels, label_width) if labels else None
        if not len(self._starts):
            raise ReadError("has no records", place=path)

    def __len__(self) -> int:
        return len(self._starts)

    def read(self, index: int) -> Record:
        """Return pixels and label; a label of width 1 is a number."""
        packed, labels = self._packed(index)
        pixels = decode(packed.content, self._color, lambda: self.describe(index))
        return pixels, np.asarray(labels if self._label_width > 1 else labels[0], np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        packed, labels = self._packed(index)
        return Item(str(packed.identity), labels, content=packed.content)

    def close(self) -> None:
        """Let go of the file."""
        if isinstance(self._content, mmap.mmap):
            self._content.close()

    def _packed(self, index: int) -> tuple[Packed, np.ndarray]:
        place = self.describe(index)
        frame = bytes(self._content[self._starts[index] : self._ends[index]])
        try:
            packed = unpack(unframe(frame))
        except ValueError as error:
            raise ReadError(str(error), place=place) from error
        labels = packed.labels if self._labels is None else self._labels.get(packed.identity)
        if labels is None or labels.size != self._label_width:
            found = "none" if labels is None else str(labels.size)
            raise ReadError(f"has {found} labels, expected {self._label_width} (label_width)", place=place)
        return packed, labels

    def _spans(self, index: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the first byte of each record, and an upper bound of its last."""
        if index is None and not is_remote(self.place):
            beside = Path(self.place).with_suffix(".idx")
            index = str(beside) if beside.exists() else None
        if index is None:
            starts = np.array(self._scan(), np.int64)
            return starts, np.append(starts[1:], len(self._content))
        starts = np.array([offset for _, offset in _index(index)], np.int64)
        bounds = np.append(np.unique(starts), len(self._content))
        wrong = starts >= len(self._content)
        if wrong.any():
            raise ReadError(
                f"names byte {starts[wrong][0]:,} of {self.place}, which has {len(self._content):,}; "
                "is it the index of this file?",
                place=index,
            )
        return starts, bounds[np.searchsorted(bounds, starts, side="right")]

    def _scan(self) -> list[int]:
        starts, at = [], 0
        while at < len(self._content):
            try:
                flag, length = head(self._content[at : at + 8])
            except ValueError as error:
                raise ReadError(f"the record at byte {at:,} {error}", place=self.place) from error
            if flag not in {MIDDLE, FIRST + MIDDLE}:
                starts.append(at)
            at += 8 + padded(length)
        return starts


def _content(path: str) -> mmap.mmap | bytes:
    if is_remote(path):
        return read_file(path)
    try:
        with Path(path).open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ReadError(MISSING, place=path) from error
    except ValueError as error:
        raise ReadError("the file is empty; was it copied or downloaded whole?", place=path) from error
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror}", place=path) from error


def _index(path: str) -> list[tuple[str, int]]:
    found = []
    for number, line in lines_of(path):
        key, _, offset = line.partition("\t")
        if not offset.strip().isdigit():
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
