"""What a writer of records is."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Self

from netweave.data.block_checksums import checksums_of
from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from netweave.data.item import Item


class Writer(ABC):
    """Writes records beside the target, and moves them there when all are written.

    Leaving a ``with`` block by an error leaves nothing behind.

    Args:
        target: The file or folder to be made.

    Attributes:
        target: The file or folder.
        unfinished: Where it is until it is complete.
        count: Records written.
        num_bytes: About the size of what is written.
        splittable: Whether records may be spread over several targets.

    Raises:
        UsageError: It is there already; nothing is overwritten.
    """

    splittable = True

    def __init__(self, target: Path) -> None:
        if target.exists():
            raise UsageError(f"{target} is there already; remove it or give another name")
        target.parent.mkdir(parents=True, exist_ok=True)
        self.target = target
        self.unfinished = target.with_name(f".{target.name}.unfinished")
        self._remove(self.unfinished)
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

    def move(self) -> None:
        """Move what is complete to its place."""
        self.unfinished.rename(self.target)

    def discard(self) -> None:
        """Remove what is unfinished."""
        self.abandon()
        self._remove(self.unfinished)
        self._remove(checksums_of(self.unfinished))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.complete()
            self.move()
        else:
            self.discard()

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
