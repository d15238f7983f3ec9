"""CIFAR's binary files: label bytes, then 3 x 32 x 32 pixels, red first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.location import read_file
from netweave.training.data.sources.arrays import Arrays

if TYPE_CHECKING:
    from collections.abc import Sequence

PIXELS = 3 * 32 * 32
LABELS = {"cifar10": 1, "fine": 2, "coarse": 2}
"""Label bytes before the pixels; CIFAR-100 has the coarse label first, then the fine one."""


class CIFAR(Arrays):
    """Images (3, 32, 32) and labels.

    Args:
        paths: The files, in order: ``data_batch_1.bin``, ...
        label: ``cifar10``, or which of CIFAR-100's labels: ``fine`` or ``coarse``.

    Raises:
        ReadError: A file is missing or not a whole number of records.
    """

    color = "rgb"

    def __init__(self, paths: Sequence[str], label: str = "cifar10") -> None:
        if label not in LABELS:
            raise ReadError(f"no label {label!r}, expected {', '.join(LABELS)}", place=", ".join(paths))
        size = LABELS[label] + PIXELS
        contents = [np.frombuffer(read_file(path), np.uint8) for path in paths]
        for path, content in zip(paths, contents, strict=True):
            if not content.size or content.size % size:
                raise ReadError(
                    f"has {content.size:,} bytes, expected a multiple of {size:,} (in CIFAR-100 each record "
                    "has two labels)",
                    place=path,
                )
        records = np.concatenate(contents).reshape(-1, size)
        labels = records[:, 1 if label == "fine" else 0]
        super().__init__(records[:, -PIXELS:].reshape(-1, 3, 32, 32), labels, names=paths)
