"""What a writer of records is."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from netweave.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from netweave.data.item import Item


class Writer(ABC):
    """Writes records beside the target, and moves them there when all are written.

    Leaving a ``with`` block by an error leaves nothing behind.

    Args:
        target: The file or folder to be made.

    Raises:
        UsageError: It is there already; nothing is overwritten.
    """

    def __init__(self, target: Path) -> None:
        if target.exists():
            raise UsageError(f"{target} is there already; remove it or give another name")
        target.parent.mkdir(parents=True, exist_ok=True)
        self.target = target
        self.unfinished = target.with_name(f".{target.name}.unfinished")
        self._remove(self.unfinished)
        self.count = 0
        self.suffix = ".png"
        self.quality = 95

    def write(self, item: Item) -> None:
        """Write a record."""
        self.put(item)
        self.count += 1

    @abstractmethod
    def put(self, item: Item) -> None:
        """Write a record into what is unfinished."""

    @abstractmethod
    def finish(self) -> None:
        """Close what is unfinished and move it to its place."""

    @abstractmethod
    def abandon(self) -> None:
        """Close what is unfinished; it is removed afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish()
        else:
            self.abandon()
            self._remove(self.unfinished)

    @staticmethod
    def _remove(path: Path) -> None:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
