"""Records spread over several files of a given size, which are read as one again (``sources/parts.py``)."""

from __future__ import annotations

import glob
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.training.data.location import part_name
from netweave.training.data.writers.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from netweave.files.atomic import Replacement
    from netweave.training.data.item import Item


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
