"""Rows of HDF5 files, read by another process: HDF5's library loops without end or crashes on damaged files.

What comes back is JSON and bytes of known lengths (``hdf5_child`` answers). A process that died is started
again for the next file, so that one damaged file of a list is one error.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.decompression_limit import allowed_bytes
from netweave.training.data.byte_file import ByteFile, LocalFile, open_bytes

SECONDS = 1.5
BYTES_PER_SECOND = 20_000_000
"""Processor time of one request: a little, and more for many bytes; good files take a hundredth of it."""

BASE_BYTES = 128 << 20
"""Memory of the process beside what it is asked for."""

MAX_JSON_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Described:
    """A dataset.

    Attributes:
        shape: Its sizes.
        dtype: Its element type, for messages.
        numbers: Whether it holds numbers.
        row_bytes: Bytes of a row, in the file or as float32, whichever is more.
        chunk: Rows of a chunk; 0 where it lies in one piece.
    """

    shape: tuple[int, ...]
    dtype: str
    numbers: bool
    row_bytes: int
    chunk: int


class HDF5Process:
    """Files of HDF5 by name, opened and read by a child process.

    Args:
        most_bytes: The most that is asked for at once.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._child: subprocess.Popen[bytes] | None = None
        self._link: Connection | None = None
        self._files: dict[str, tuple[int, ByteFile]] = {}
        self._count = 0
        self._error: ReadError | None = None
        self._finalizer: Callable[[], object] | None = None

    def open(self, name: str) -> list[str]:
        """Open a file, if it is not open; return the names of what is in it.

        Raises:
            ReadError: It is no HDF5 file, or cannot be read.
        """
        file = open_bytes(name)
        num_bytes, path = file.num_bytes, None
        if isinstance(file, LocalFile):  # the process opens it itself
            file.close()
            path = str(file.path.absolute())
        if self._child is None:
            self._files.clear()
            self._start()
        self._count += 1
        self._files[name] = (self._count, file)
        memory = BASE_BYTES + 2 * min(self._most_bytes, allowed_bytes(num_bytes))
        what = "cannot be opened as HDF5"
        try:
            answer, _ = self._ask(name, what, do="open", path=path, num_bytes=num_bytes, memory=memory)
        except ReadError:
            self.close(name)
            raise
        return [str(found) for found in answer["names"]]

    def is_open(self, name: str) -> bool:
        """Return whether a file is open, in a process that lives."""
        return name in self._files

    def num_bytes(self, name: str) -> int:
        """Return the size of an open file."""
        return self._files[name][1].num_bytes

    def describe(self, name: str, dataset: str) -> Described | None:
        """Return what a dataset of an open file is; None if there is none of the name.

        Raises:
            ReadError: The file is damaged.
        """
        row, _ = self._ask(name, f"dataset {dataset!r} cannot be read", do="describe", dataset=dataset)
        if "shape" not in row:
            return None
        shape = tuple(int(size) for size in row["shape"])
        numbers, chunk = bool(row["numbers"]), int(row["chunk"])
        return Described(shape, str(row["dtype"]), numbers, int(row["row_bytes"]), chunk)

    def read(self, name: str, dataset: str, first: int, last: int, *, num_bytes: int) -> np.ndarray:
        """Return rows of a dataset of an open file as float32.

        Args:
            name: The file.
            dataset: The dataset.
            first: The first row.
            last: The row after the last.
            num_bytes: How much that is, about.

        Raises:
            ReadError: The file is damaged.
        """
        what = f"rows {first} to {last - 1} of {dataset!r} cannot be read"
        seconds = SECONDS + num_bytes / BYTES_PER_SECOND
        answer, content = self._ask(name, what, seconds, do="read", dataset=dataset, first=first, last=last)
        return np.frombuffer(content, np.float32).reshape(answer["shape"])

    def close(self, name: str) -> None:
        """Close a file, if it is open."""
        number, file = self._files.pop(name, (0, None))
        if file is not None:
            file.close()
            if self._child is not None:
                self._send({"do": "close", "file": number, "seconds": SECONDS})
                self._receive(name, "cannot be closed")

    def end(self) -> None:
        """End the process."""
        for _, file in self._files.values():
            file.close()
        self._files.clear()
        if self._finalizer is not None:
            self._finalizer()
        self._link = self._child = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        program = Path(__file__).with_name("hdf5_child.py")
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-s", str(program), str(theirs.fileno())],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._link = Connection(ours.detach())
        # a source that nobody closes leaves no process behind
        self._finalizer = weakref.finalize(self, _end, self._child, self._link)

    def _send(self, request: dict[str, Any]) -> None:
        assert self._link is not None
        try:
            self._link.send_bytes(json.dumps(request).encode())
        except OSError:  # it has ended; whoever receives learns how
            return

    def _ask(
        self, name: str, what: str, seconds: float = SECONDS, **request: Any
    ) -> tuple[dict[str, Any], bytes]:
        self._error = None
        self._send({**request, "file": self._files[name][0], "seconds": seconds})
        return self._receive(name, what)

    def _receive(self, name: str, what: str) -> tuple[dict[str, Any], bytes]:
        """Return an answer, and give the process the bytes of files elsewhere that it wants first."""
        assert self._link is not None
        try:
            while True:
                answer = json.loads(self._link.recv_bytes(MAX_JSON_BYTES))
                if "want" not in answer:
                    break
                self._link.send_bytes(self._wanted(name, *answer["want"][1:]))
            if "error" in answer:
                raise self._error or ReadError(f"{what}: {answer['error']}", place=name)
            size = int(answer["num_bytes"])
            return answer, self._link.recv_bytes(size) if size else b""
        except (EOFError, OSError) as error:
            raise self._ended(name) from error

    def _wanted(self, name: str, offset: int, num_bytes: int) -> bytes:
        try:
            return b"+" + self._files[name][1].read(offset, num_bytes)
        except ReadError as error:
            self._error = error
            return b"-"

    def _ended(self, name: str) -> ReadError:
        """Return the error for a process that did not survive a file."""
        assert self._child is not None
        self.end()
        return ReadError("is damaged: HDF5's library does not survive it, or does not end", place=name)


def _end(child: subprocess.Popen[bytes], link: Connection) -> None:
    link.close()
    child.kill()
    child.wait()
