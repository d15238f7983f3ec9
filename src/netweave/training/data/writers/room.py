"""Room on the disk for stores whose libraries do not take a full disk well.

HDF5 ends the process (SIGSEGV) after a write that fails, and LMDB calls a disk that fills up amid a
transaction an input/output error. Room that is taken before they write makes a full disk, a quota and a limit
on the size of files errors of the system, before the library is called.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STEP_BYTES = 1 << 20
"""Taken at once, where the disk has so much."""


class Room:
    """Room that a file takes ahead of what is written into it.

    Args:
        path: The file; made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab")
        self._num_bytes = 0

    def reserve(self, num_bytes: int) -> None:
        """Have the file take so many bytes in all.

        Raises:
            OSError: The disk is full, a quota is used up, or the file may not be so large.
        """
        if num_bytes <= self._num_bytes or not hasattr(os, "posix_fallocate"):
            return
        try:
            self._take(num_bytes + STEP_BYTES)
        except OSError:
            self._take(num_bytes)

    def release(self, num_bytes: int) -> None:
        """Give back what is beyond so many bytes, which the library has written and closed."""
        with self._file:
            self._file.truncate(num_bytes)

    def close(self) -> None:
        """Close the file, which is going to be removed."""
        self._file.close()

    def _take(self, num_bytes: int) -> None:
        os.posix_fallocate(self._file.fileno(), self._num_bytes, num_bytes - self._num_bytes)
        self._num_bytes = num_bytes
