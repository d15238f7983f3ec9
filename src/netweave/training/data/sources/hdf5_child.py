"""The process that reads rows of HDF5 files: their library neither ends nor survives on some damaged ones.

Run by path, with h5py alone (see ``hdf5_process``). It answers requests over a socket: JSON, and the numbers
of rows as bytes. Processor time of each request and memory are limited; what exceeds them ends the process.
"""

from __future__ import annotations

import io
import json
import math
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

import h5py
import numpy as np


class _Remote(io.RawIOBase):
    """A file that the other side reads."""

    def __init__(self, link: Connection, number: int, num_bytes: int) -> None:
        super().__init__()
        self._link, self._number, self._num_bytes, self._at = link, number, num_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._num_bytes}[whence]
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        want = {"want": [self._number, self._at, len(buffer)]}
        self._link.send_bytes(json.dumps(want).encode())
        content = self._link.recv_bytes(len(buffer) + 1)
        if content[:1] != b"+":
            raise OSError("the bytes are not to be had")
        content = content[1:]
        memoryview(buffer).cast("B")[: len(content)] = content
        self._at += len(content)
        return len(content)


class _Files:
    """The open files, by the numbers that the other side gave them."""

    def __init__(self, link: Connection) -> None:
        self._link = link
        self._files: dict[int, h5py.File] = {}

    def open(self, file: int, path: str | None, num_bytes: int, memory: int) -> tuple[dict[str, Any], bytes]:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, resource.RLIM_INFINITY))
        source = path if path is not None else _Remote(self._link, file, num_bytes)
        self._files[file] = h5py.File(source, "r", locking=False) if path else h5py.File(source, "r")
        return {"names": [_text(name) for name in list(self._files[file])[:20]]}, b""

    def close(self, file: int) -> tuple[dict[str, Any], bytes]:
        if file in self._files:
            self._files.pop(file).close()
        return {}, b""

    def describe(self, file: int, dataset: str) -> tuple[dict[str, Any], bytes]:
        """Say what a dataset is; nothing for a name that is none, or that leads to another file."""
        stored = self._dataset(file, dataset)
        if stored is None:
            return {}, b""
        row_bytes = math.prod(stored.shape[1:]) * max(4, stored.dtype.itemsize)
        numbers = stored.dtype.kind in "biuf"
        shape, chunk = list(stored.shape), stored.chunks[0] if stored.chunks else 0
        return {
            "shape": shape,
            "dtype": str(stored.dtype),
            "numbers": numbers,
            "row_bytes": row_bytes,
            "chunk": chunk,
        }, b""

    def read(self, file: int, dataset: str, first: int, last: int) -> tuple[dict[str, Any], bytes]:
        """Give rows as float32."""
        stored = self._dataset(file, dataset)
        if stored is None:
            raise OSError("the dataset is gone")
        rows = np.ascontiguousarray(stored[first:last], np.float32)
        return {"shape": list(rows.shape)}, rows.tobytes()

    def _dataset(self, file: int, name: str) -> h5py.Dataset | None:
        group: Any = self._files[file]
        for part in filter(None, name.split("/")):
            if not isinstance(group, h5py.Group):
                return None
            if not isinstance(group.get(part, getlink=True), h5py.HardLink):
                return None
            group = group[part]
        if not isinstance(group, h5py.Dataset) or group.shape is None:
            return None
        if group.external or group.is_virtual:
            raise OSError(f"the numbers of {name!r} are in another file")
        return group


def _text(name: Any) -> str:
    return name.decode("utf-8", "backslashreplace") if isinstance(name, bytes) else str(name)


def main(descriptor: str) -> None:
    """Answer requests until the other side closes the socket."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    link = Connection(int(descriptor))
    files = _Files(link)
    while True:
        try:
            request = json.loads(link.recv_bytes())
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, request.pop("seconds"))  # SIGPROF ends the process
        work = getattr(files, request.pop("do"))
        content: Any = b""
        try:
            answer, content = work(**request)
        except Exception as error:  # noqa: BLE001 - whatever h5py makes of a damaged file
            answer = {"error": " ".join(f"{error!s:.200}".split()) or type(error).__name__}
        signal.setitimer(signal.ITIMER_PROF, 0)
        link.send_bytes(json.dumps({**answer, "num_bytes": len(content)}).encode())
        if len(content):
            link.send_bytes(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
