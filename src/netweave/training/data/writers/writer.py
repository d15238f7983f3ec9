"""The base of writers of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

from netweave.errors import UsageError
from netweave.files.atomic import writing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from netweave.files.atomic import Replacement
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
