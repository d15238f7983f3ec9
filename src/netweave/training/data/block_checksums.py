"""Checksums beside files of records, whose formats have none: of each block, checked when it is first read.

Beside ``data.mdb`` lies ``data.mdb.crc32``: a line of text, and the CRC-32 of each block of 64 KiB, four
bytes each with the low byte first. Other programs do not look at it. A checksum of the whole file would have
to read it all before the first record; of blocks, each is checked once, when it is read anyway
(docs/decisions/0174).
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.byte_file import ByteFile

SUFFIX = ".crc32"
BLOCK_BYTES = 1 << 16
_HEAD = re.compile(rb"netweave crc32 of blocks of 65536 bytes, (\d{1,18}) bytes, ([0-9a-f]{8})\n")


def checksums_of(path: Path) -> Path:
    """Return where the checksums of a file are."""
    return path.with_name(path.name + SUFFIX)


def write_checksums(path: Path) -> None:
    """Write the checksums of a file beside it."""
    with path.open("rb") as file:
        sums = _sums(iter(lambda: file.read(BLOCK_BYTES), b""))
    content = _encode(sums, path.stat().st_size)
    checksums_of(path).write_bytes(content)


def _encode(sums: np.ndarray, num_bytes: int) -> bytes:
    body = sums.tobytes()
    head = f"netweave crc32 of blocks of {BLOCK_BYTES} bytes, {num_bytes} bytes, {zlib.crc32(body):08x}\n"
    return head.encode() + body


def _sums(blocks: Iterable[bytes]) -> np.ndarray:
    return np.array([zlib.crc32(block) for block in blocks], "<u4")


def read_checksums(name: str) -> tuple[np.ndarray, int] | None:
    """Return the checksums beside a file, and its size when they were made; None if there are none.

    Raises:
        ReadError: They are damaged.
    """
    beside = Path(name + SUFFIX)
    try:
        content = beside.read_bytes()
    except (OSError, ValueError):
        return None
    match = _HEAD.match(content)
    body = content[match.end() :] if match else b""
    if match is None or f"{zlib.crc32(body):08x}".encode() != match[2] or len(body) % 4:
        raise ReadError(
            f"is damaged, so that {name} cannot be checked; remove it if the records are known to be good",
            place=str(beside),
        )
    return np.frombuffer(body, "<u4"), int(match[1])


def check_content(name: str, content: bytes) -> None:
    """Check the whole content of a file against the checksums beside it, if there are any.

    Raises:
        ReadError: It is not as it was written.
    """
    stored = read_checksums(name)
    if stored is None:
        return
    starts = range(0, len(content), BLOCK_BYTES)
    own = _sums(content[start : start + BLOCK_BYTES] for start in starts)
    if len(content) != stored[1] or not np.array_equal(own, stored[0]):
        raise _damaged(name)


class CheckedFile(ByteFile):
    """A file whose blocks are compared with their checksums when they are first read.

    Args:
        file: The file; closed with this.
        sums: The checksum of each block.
        num_bytes: Its size when they were made.

    Raises:
        ReadError: It has another size.
    """

    def __init__(self, file: ByteFile, sums: np.ndarray, num_bytes: int) -> None:
        super().__init__(file.name, file.num_bytes)
        self.remote = file.remote
        self._file = file
        self._sums = sums
        self._is_checked = np.zeros(len(sums), bool)
        self._lock = threading.Lock()
        if file.num_bytes != num_bytes or len(sums) != -(-num_bytes // BLOCK_BYTES):
            file.close()
            raise _damaged(file.name)

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes; fewer than asked for only at the end of the file.

        Raises:
            ReadError: They cannot be read, or are not as they were written.
        """
        end = min(offset + num_bytes, self.num_bytes)
        if offset < end:
            for start, last in self._unchecked(offset // BLOCK_BYTES, -(-end // BLOCK_BYTES)):
                self._check(start, last)
        return self._file.read(offset, num_bytes)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _unchecked(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield runs of blocks that nobody has checked, of at most some 16 MB."""
        with self._lock:
            blocks = first + np.flatnonzero(~self._is_checked[first:last])
        for run in np.split(blocks, np.flatnonzero(np.diff(blocks) > 1) + 1):
            for start in range(0, len(run), 256):
                part = run[start : start + 256]
                yield int(part[0]), int(part[-1]) + 1

    def _check(self, first: int, last: int) -> None:
        content = self._file.read(first * BLOCK_BYTES, (last - first) * BLOCK_BYTES)
        own = _sums(content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES))
        if not np.array_equal(own, self._sums[first:last]):
            raise _damaged(self.name)
        with self._lock:
            self._is_checked[first:last] = True


def checked(file: ByteFile) -> ByteFile:
    """Return a file that is checked as it is read, if there are checksums beside it.

    Raises:
        ReadError: They are damaged, or of another file.
    """
    checksums = None if file.remote else read_checksums(file.name)
    return file if checksums is None else CheckedFile(file, *checksums)


def _damaged(name: str) -> ReadError:
    return ReadError(
        f"is damaged: it is not as it was packed (checksums in {name}{SUFFIX}); pack it again, or remove the "
        "checksums if the change is intended",
        place=name,
    )
