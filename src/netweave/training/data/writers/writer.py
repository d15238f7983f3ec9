"""Writers of data and the room they take."""

from __future__ import annotations

import glob
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from netweave.errors import UsageError
from netweave.files.output_files import Replacement, writing
from netweave.training.data.location import part_name

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.training.data.item import Item


class Writer(ABC):
    """Writes records beside the target, and moves them there when all are written.

    Leaving a ``with`` block by an error leaves nothing behind.

    Args:
        target: The file or folder to be made.
        new: Where files are until all are complete.

    Attributes:
        target: The file or folder.
        unfinished: Where it is until it is complete; what belongs beside it is beside this.
        count: Records written.
        num_bytes: About the size of what is written.
        splittable: Whether records may be spread over several targets.

    Raises:
        UsageError: It is there already; nothing is overwritten.
    """

    splittable = True

    def __init__(self, target: Path, new: Replacement) -> None:
        if target.exists():
            raise UsageError(f"{target} is there already; remove it or give another name")
        self.target = target
        self.unfinished = new.folder / target.name
        self._new = new
        self._is_complete = False
        self.count = 0
        self.num_bytes = 0
        self.suffix = ".png"
        self.quality = 95

    def write(self, item: Item) -> None:
        """Write a record."""
        encoded, num_bytes = self.encode(item, self.count)
        self.append(encoded, num_bytes)

    def append(self, encoded: Any, num_bytes: int) -> None:
        """Write a record that ``encode`` made."""
        self.put(encoded)
        self.count += 1
        self.num_bytes += num_bytes

    @property
    def targets(self) -> Sequence[Path]:
        """The files or folders that are made."""
        return [self.target]

    @abstractmethod
    def encode(self, item: Item, number: int) -> tuple[Any, int]:
        """Return a record in the form that ``put`` takes, and its size in bytes.

        Args:
            item: The record.
            number: Its number among all records, for its key.
        """

    @abstractmethod
    def put(self, encoded: Any) -> None:
        """Write a record into what is unfinished."""

    @abstractmethod
    def complete(self) -> None:
        """Write what is left and close what is unfinished."""

    @abstractmethod
    def abandon(self) -> None:
        """Close what is unfinished; it is removed afterwards."""

    def finish(self) -> None:
        """Complete what is unfinished, which moves to its place at the end of the ``with`` block.

        Raises:
            WriteError: It cannot be written.
        """
        if not self._is_complete:
            with writing(self.target):
                self.complete()
            self._is_complete = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._close_unfinished()
            self._new.__exit__(kind, error, trace)
            return
        try:
            self.finish()
        except BaseException:
            self._close_unfinished()
            self._new.discard()
            raise
        self._new.commit()

    def _close_unfinished(self) -> None:
        with suppress(OSError):  # what is still to be written finds the disk as full as before
            self.abandon()


# HDF5 ends the process (SIGSEGV) after a write that fails, and LMDB calls a disk that fills up amid a
# transaction an input/output error. Room that is taken before they write makes a full disk, a quota and a
# limit on the size of files errors of the system, before the library is called.

STEP_BYTES = 1 << 20
"""Taken at once, where the disk has so much."""


class Room:
    """Room that a file takes ahead of what is written into it.

    Args:
        path: The file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._num_bytes = 0

    def reserve(self, num_bytes: int) -> None:
        """Have the file take so many bytes in all.

        Raises:
            OSError: The disk is full, a quota is used up, or the file may not be so large.
        """
        if num_bytes <= self._num_bytes or not hasattr(os, "posix_fallocate"):
            return
        try:
            self._take(num_bytes + STEP_BYTES)
        except OSError:
            self._take(num_bytes)

    def release(self, num_bytes: int) -> None:
        """Give back what is beyond so many bytes, which the library has written and closed."""
        with self._file:
            self._file.truncate(num_bytes)

    def close(self) -> None:
        """Close the file, which is going to be removed."""
        self._file.close()

    def _take(self, num_bytes: int) -> None:
        os.posix_fallocate(self._file.fileno(), self._num_bytes, num_bytes - self._num_bytes)
        self._num_bytes = num_bytes


class SplitWriter(Writer):
    """Writes ``train-00000.rec``, ``train-00001.rec``, ...: a file ends before it grows too large.

    All appear at their places together, when the last is complete.

    Args:
        target: The name without numbers, which the parts are read by as one.
        new: Where files are until all are complete.
        split_bytes: Size that a part has at most, besides its index; but each has at least one record.
        make: Makes the writer of a part.

    Raises:
        UsageError: The target or a part of it is there already, or the kind cannot be split.
    """

    def __init__(
        self, target: Path, new: Replacement, split_bytes: int, make: Callable[[Path, Replacement], Writer]
    ) -> None:
        super().__init__(target, new)
        old = sorted(target.parent.glob(part_name(glob.escape(target.name), "[0-9]*")))
        if old:
            raise UsageError(f"{old[0]} is there already; remove it or give another name")
        self._split_bytes = split_bytes
        self._make = make
        self._parts = [self._part()]
        if not self._parts[0].splittable:
            self.abandon()
            raise UsageError(f"{target}: files of this kind cannot be split; leave out --split-size")

    @property
    def targets(self) -> list[Path]:
        """The files or folders that are made."""
        return [part.target for part in self._parts]

    def encode(self, item: Item, number: int) -> tuple[Any, int]:
        """Return a record in the form that the parts take, and its size in bytes."""
        part = self._parts[-1]
        part.suffix, part.quality = self.suffix, self.quality
        encoded, num_bytes = part.encode(item, number)
        return (encoded, num_bytes), num_bytes

    def put(self, encoded: tuple[Any, int]) -> None:
        """Write a record into the last part, or into a new one where it would grow too large."""
        last = self._parts[-1]
        if last.count and last.num_bytes + encoded[1] > self._split_bytes:
            last.finish()
            self._parts.append(self._part())
        self._parts[-1].append(*encoded)

    def complete(self) -> None:
        """Close the last part."""
        self._parts[-1].finish()

    def abandon(self) -> None:
        """Close the last part; the others are closed."""
        self._parts[-1].abandon()

    def _part(self) -> Writer:
        number = len(getattr(self, "_parts", ()))
        return self._make(self.target.with_name(part_name(self.target.name, f"{number:05d}")), self._new)
