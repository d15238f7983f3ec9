"""MXNet's image records, as im2rec writes them: ``.rec`` and ``.idx``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.files.output_files import Replacement
from netweave.training.data.block_checksums import write_checksums
from netweave.training.data.recordio import Packed, frame, pack
from netweave.training.data.writers.writer import Writer

if TYPE_CHECKING:
    from netweave.training.data.item import Item


class RecordIOWriter(Writer):
    """The index is written beside the records, under the name that ends in ``.idx``.

    Args:
        target: The ``.rec`` file to be made.
        new: Where files are until all are complete.
    """

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
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
        """Close the file, and write its index and the checksums of both."""
        self._file.close()
        write_checksums(self.unfinished)
        index = self.unfinished.with_suffix(".idx")
        index.write_text("".join(self._index))
        write_checksums(index)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
