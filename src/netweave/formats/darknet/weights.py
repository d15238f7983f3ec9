"""The file of arrays: a header, then float32 numbers without names, in the order of the layers.

The order within a layer is that of ``load_convolutional_weights`` and its like in parser.c; a file says
nothing about sizes, so that a wrong net is noticed by the length alone.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import WeightError
from netweave.files import read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

_VERSION = struct.Struct("<iii")
_HEADER = struct.Struct("<iiiQ")


def encode_weights(arrays: Iterable[np.ndarray], *, seen: int) -> bytes:
    """Return the bytes of a file: version 0.2, then the arrays in the order of the layers.

    Args:
        arrays: In Darknet's order and layout.
        seen: Images that training has seen, from which Darknet goes on.
    """
    numbers = [np.ascontiguousarray(array, "<f4").tobytes() for array in arrays]
    return b"".join([_HEADER.pack(0, 2, 0, seen), *numbers])


class WeightFile:
    """The arrays of a file, taken one after another.

    Args:
        path: The file.

    Attributes:
        transposed: Whether dense layers are stored as (inputs, outputs): files of before 2015.

    Raises:
        ReadError: The file cannot be read.
        WeightError: It is too short for a header, or its length is no whole number of float32.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        content = read_bytes(path)
        if len(content) < _VERSION.size + 4:
            raise WeightError(f"has {len(content)} bytes, too few for a header of Darknet", place=self.file)
        major, minor, _ = _VERSION.unpack_from(content)
        if not (0 <= major < 1 << 16 and 0 <= minor < 1 << 16):
            raise WeightError(
                f"begins with version {major}.{minor}, expected a file of weights of Darknet", place=self.file
            )
        begin = _VERSION.size + (8 if major * 10 + minor >= 2 else 4)
        if len(content) < begin or (len(content) - begin) % 4:
            raise WeightError(
                f"has {len(content):,} bytes, expected a header and float32 numbers; "
                f"was it copied completely?",
                place=self.file,
            )
        self.transposed = major > 1000 or minor > 1000
        self._numbers = np.frombuffer(content, dtype="<f4", offset=begin)
        self._next = 0

    @property
    def num_left(self) -> int:
        """Number of values that have not been read."""
        return len(self._numbers) - self._next

    def take(self, shape: Sequence[int], *, place: str, name: str) -> np.ndarray:
        """Return the next array.

        Args:
            shape: Its sizes.
            place: The layer that needs it, for messages.
            name: What it is, for messages.

        Raises:
            WeightError: The file ends before it does.
        """
        size = math.prod(shape)
        left = self.num_left
        if size > left:
            raise WeightError(
                f"ends in {name} of {place}: {size:,} numbers are needed, but only {left:,} are left; the "
                "file belongs to another net, or contains only its first layers",
                place=self.file,
            )
        taken = self._numbers[self._next : self._next + size].reshape(tuple(shape))
        self._next += size
        return taken

    def finish(self) -> None:
        """Check that nothing is left.

        Raises:
            WeightError: Numbers are left over: the file is of another net.
        """
        if self.num_left:
            raise WeightError(
                f"contains {len(self._numbers):,} numbers, but the net needs {self._next:,}; the file "
                f"belongs to another net",
                place=self.file,
            )
