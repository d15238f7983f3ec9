"""MXNet's image records, as im2rec writes them: ``.rec`` and ``.idx``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.data.block_checksums import move_checksums, write_checksums
from netweave.data.recordio import Packed, frame, pack
from netweave.data.writers.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.data.item import Item


class RecordIOWriter(Writer):
    """The index is written beside the records, under the name that ends in ``.idx``.

    Args:
        target: The ``.rec`` file to be made.
    """

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        self._file = self.unfinished.open("wb")
        self._index: list[str] = []

    def encode(self, item: Item, number: int) -> tuple[tuple[int, bytes], int]:
        """Return number and bytes of a record; bare pixels are encoded."""
        content = frame(pack(Packed(item.labels, number, item.encoded(self.suffix, self.quality))))
        return (number, content), len(content)

    def put(self, encoded: tuple[int, bytes]) -> None:
        """Write a record."""
        number, content = encoded
        self._index.append(f"{number}\t{self._file.tell()}\n")
        self._file.write(content)

    def complete(self) -> None:
        """Close the file, and write its checksums."""
        self._file.close()
        write_checksums(self.unfinished)

    def move(self) -> None:
        """Move the file to its place, and write the index."""
        index = self.target.with_suffix(".idx")
        index.write_text("".join(self._index))
        write_checksums(index)
        move_checksums(self.unfinished, self.target)
        super().move()

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
