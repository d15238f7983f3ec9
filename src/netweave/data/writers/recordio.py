"""MXNet's image records, as im2rec writes them: ``.rec`` and ``.idx``."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

    def put(self, item: Item) -> None:
        """Write a record; bare pixels are encoded."""
        self._index.append(f"{self.count}\t{self._file.tell()}\n")
        self._file.write(
            frame(pack(Packed(item.labels, self.count, item.encoded(self.suffix, self.quality))))
        )

    def finish(self) -> None:
        """Close the file and move it to its place, and write the index."""
        self._file.close()
        self.target.with_suffix(".idx").write_text("".join(self._index))
        self.unfinished.rename(self.target)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
