"""SINGA's kvfile, as its ``make create`` writes one: records by number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.training.data.block_checksums import write_checksums
from netweave.training.data.kvfile import frame, record_class
from netweave.training.data.writers.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files.atomic import Replacement
    from netweave.training.data.item import Item


class KVFileWriter(Writer):
    """Pixels are planes, red first, since SINGA decodes no image files; other numbers are floats.

    Args:
        target: The file to be made.
        new: Where files are until all are complete.
    """

    def __init__(self, target: Path, new: Replacement) -> None:
        super().__init__(target, new)
        self._file = self.unfinished.open("wb")

    def encode(self, item: Item, number: int) -> tuple[bytes, int]:
        """Return key and record as the file has them."""
        pixels = item.decoded("rgb")
        record = record_class()()
        record.label = item.class_number(np.int32)
        if pixels.ndim == 3:
            rgb = item.content is not None or item.color == "rgb" or pixels.shape[2] != 3
            pixels = (pixels if rgb else pixels[:, :, ::-1]).transpose(2, 0, 1)
        record.shape.extend(pixels.shape)
        if pixels.dtype == np.uint8:
            record.pixel = pixels.tobytes()
        else:
            record.data.append(np.ascontiguousarray(pixels, "<f4").tobytes())
        content = frame(f"{number:08d}".encode(), record.SerializeToString())
        return content, len(content)

    def put(self, encoded: bytes) -> None:
        """Write a record."""
        self._file.write(encoded)

    def complete(self) -> None:
        """Close the file, and write its checksums."""
        self._file.close()
        write_checksums(self.unfinished)

    def abandon(self) -> None:
        """Close the file."""
        self._file.close()
