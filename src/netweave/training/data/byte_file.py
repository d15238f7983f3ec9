"""Files read at any place: on this machine, or elsewhere by ranges of bytes.

A file elsewhere is never read whole. Who knows what is needed asks for all of it at once (``read_many``), and
gets it in few requests; single reads go through a small cache of blocks that grows with sequential reading.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from netweave.errors import ReadError
from netweave.files.library_errors import reason_of
from netweave.files.source import MISSING, require_ordinary, unreadable
from netweave.training.data.location import is_remote, local_copy, system_of

if TYPE_CHECKING:
    from types import TracebackType

Span = tuple[int, int]
"""First byte, and number of bytes."""

BLOCK_BYTES = 1 << 20
"""Unit of single reads from elsewhere: long beside the latency of a request, short beside a file."""

MAX_READ_AHEAD = 8
"""Most blocks of one request, reached by sequential reading."""

KEPT_BLOCKS = 16
"""Blocks kept for single reads; the index structures of HDF5 and LMDB are read again and again."""

MAX_GAP_BYTES = 1 << 15
"""Two spans this close are one request: the bytes between cost less than another round trip."""

MAX_REQUEST_BYTES = 8 << 20
"""Most bytes of one request, so that large fetches are several requests side by side."""

PAUSES_S = (0.1, 0.5)
"""Before each further attempt at a request that failed; stores drop single requests now and then."""


class ByteFile(ABC):
    """The bytes of a file. Methods may be called from several threads at once.

    Attributes:
        name: Path or URL, for messages.
        num_bytes: Size of the file when it was opened.
        remote: Whether reading waits for another machine.
    """

    remote = False

    def __init__(self, name: str, num_bytes: int) -> None:
        self.name = name
        self.num_bytes = num_bytes

    @abstractmethod
    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes; fewer than asked for only at the end of the file.

        Raises:
            ReadError: They cannot be read.
        """

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of several spans, as ``read`` would, in as few requests as possible.

        Raises:
            ReadError: Some cannot be read.
        """
        return [self.read(offset, num_bytes) for offset, num_bytes in spans]

    def close(self) -> None:  # noqa: B027 - files elsewhere hold nothing open
        """Close the file; nothing is read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class LocalFile(ByteFile):
    """A file on this machine, read by ``pread``: a mapped file that is cut short would end the process.

    Args:
        path: The file.
        name: What the user calls it.

    Raises:
        ReadError: It is missing, cannot be read, or is no ordinary file.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        self.path = Path(path)
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would block
        except (OSError, ValueError) as error:
            raise unreadable(name, error) from error
        status = os.fstat(self._descriptor)
        try:
            require_ordinary(status, name)
        except ReadError:
            self.close()
            raise
        super().__init__(name, status.st_size)

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes; fewer than asked for only at the end of the file."""
        num_bytes = min(num_bytes, self.num_bytes - offset)  # damage names bytes far behind the end
        pieces = []
        while num_bytes > 0:
            try:
                piece = os.pread(self._descriptor, num_bytes, offset)
            except OSError as error:
                raise ReadError(f"cannot be read: {reason_of(error)}", place=self.name) from error
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            num_bytes -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RemoteFile(ByteFile):
    """A file of an fsspec file system that gives ranges of bytes.

    Args:
        name: The URL.
        system: The file system.
        num_bytes: Size of the file.
    """

    remote = True

    def __init__(self, name: str, system: Any, num_bytes: int) -> None:
        super().__init__(name, num_bytes)
        self._system = system
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._next_block = -1  # that would make the reading sequential
        self._read_ahead = 1
        self._failed = False

    def read(self, offset: int, num_bytes: int) -> bytes:
        """Return bytes; fewer than asked for only at the end of the file."""
        end = min(offset + num_bytes, self.num_bytes)
        if offset >= end:
            return b""
        first, last = offset // BLOCK_BYTES, (end - 1) // BLOCK_BYTES
        with self._lock:
            blocks = [self._block(number) for number in range(first, last + 1)]
        content = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        return content[offset - first * BLOCK_BYTES : end - first * BLOCK_BYTES]

    def read_many(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of several spans: neighbours in one request, and requests side by side."""
        clipped = [(at, max(0, min(size, self.num_bytes - at))) for at, size in spans]
        requests, of_span = merge_spans(clipped)
        contents = self._request(requests) if requests else []
        pieces: list[bytes] = []
        for (offset, size), number in zip(clipped, of_span, strict=True):
            begin = offset - requests[number][0] if size else 0
            pieces.append(contents[number][begin : begin + size] if size else b"")
        return pieces

    def _block(self, number: int) -> bytes:
        """Return a block; sequential reading fetches more and more of them with one request."""
        if number not in self._blocks:
            self._read_ahead = min(2 * self._read_ahead, MAX_READ_AHEAD) if number == self._next_block else 1
            start = number * BLOCK_BYTES
            end = min(start + self._read_ahead * BLOCK_BYTES, self.num_bytes)
            (content,) = self._request([(start, end - start)])
            for place in range(0, len(content), BLOCK_BYTES):
                self._blocks[number + place // BLOCK_BYTES] = content[place : place + BLOCK_BYTES]
            self._next_block = number + self._read_ahead
            while len(self._blocks) > KEPT_BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]

    def _request(self, spans: Sequence[Span]) -> list[bytes]:
        """Return the bytes of spans, one request each; try again where a store drops one."""
        # once a store is down, everybody who still asks it should hear so soon
        for pause_s in () if self._failed else PAUSES_S:
            try:
                return self._attempt(spans)
            except ReadError:
                time.sleep(pause_s)
        try:
            contents = self._attempt(spans)
        except ReadError:
            self._failed = True
            raise
        self._failed = False
        return contents

    def _attempt(self, spans: Sequence[Span]) -> list[bytes]:
        starts = [offset for offset, _ in spans]
        ends = [offset + size for offset, size in spans]
        try:
            contents = self._system.cat_ranges([self.name] * len(spans), starts, ends, on_error="return")
        except Exception as error:  # noqa: BLE001 - each file system raises errors of its own library
            contents = [error] * len(spans)
        for (offset, size), content in zip(spans, contents, strict=True):
            place = f"{self.name}: bytes {offset:,} to {offset + size:,}"
            if isinstance(content, BaseException):
                raise ReadError(
                    f"cannot be read: {reason_of(content)}; is the store up? A run that stopped goes on with "
                    "--resume",
                    place=place,
                ) from content
            if len(content) != size:
                raise ReadError(
                    f"the store gave {len(content):,} bytes instead of {size:,}; was the file replaced?",
                    place=place,
                )
        return [bytes(content) for content in contents]


def merge_spans(spans: Sequence[Span]) -> tuple[list[Span], list[int]]:
    """Return requests that cover spans, and for each span the number of the request that has it.

    Close spans are one request, unless it became longer than a request may be. Empty spans need none.

    >>> merge_spans([(1 << 20, 10), (100, 50), (0, 100)])
    ([(0, 150), (1048576, 10)], [1, 0, 0])
    """
    requests: list[Span] = []
    of_span = [-1] * len(spans)
    for number, (offset, size) in sorted(enumerate(spans), key=lambda row: row[1]):
        if not size:
            continue
        start, length = requests[-1] if requests else (offset, size)
        end = max(start + length, offset + size)
        if not requests or offset - (start + length) > MAX_GAP_BYTES or end - start > MAX_REQUEST_BYTES:
            requests.append((offset, size))
        else:
            requests[-1] = (start, end - start)
        of_span[number] = len(requests) - 1
    return requests, of_span


def open_bytes(name: str) -> ByteFile:
    """Open a file here or elsewhere.

    A store that does not give ranges of bytes (some web servers) has its file copied to this machine's disk.

    Raises:
        ReadError: The file is missing or cannot be read.
    """
    if not is_remote(name):
        return LocalFile(name, name)
    system = system_of(name)
    try:
        info = system.info(name)
    except FileNotFoundError as error:
        raise ReadError(MISSING, place=name) from error
    except Exception as error:
        raise ReadError(f"cannot be read: {reason_of(error)}", place=name) from error
    if info.get("type") == "directory":
        raise ReadError("is a folder, expected a file", place=name)
    if info.get("size") is None or not _gives_ranges(system, name, info):
        return LocalFile(local_copy(name), name)
    return RemoteFile(name, system, int(info["size"]))


def _gives_ranges(system: Any, name: str, found: Any) -> bool:
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    if not {"http", "https"}.intersection(protocols) or found["size"] < 2:
        return True
    if found.get("partial") is False:
        return False
    try:  # this way of reading gives up as soon as a server sends more than it was asked for
        with system.open(name, "rb", block_size=1, cache_type="none") as file:
            file.seek(found["size"] - 1)
            return len(file.read(1)) == 1
    except (ValueError, OSError):
        return False
