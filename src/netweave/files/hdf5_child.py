"""The process that opens an HDF5 file: its library neither ends nor survives on some damaged ones.

Run by path, with h5py alone (see ``hdf5``). Its arguments are the file and its limits; it leaves ``arrays``,
the numbers of all datasets one after another, and ``index.json``, the tree of groups with the place of each.
It follows no link out of the file, and reads nothing whose numbers lie elsewhere.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

MAX_OBJECTS = 200_000
MAX_DEPTH = 64
ALIGNMENT = 64
"""Arrays begin at multiples of this many bytes."""


class _Tree:
    def __init__(self, out: BinaryIO, most: int) -> None:
        self._out = out
        self._most = most
        self._seen: set[tuple[int, ...]] = set()

    def group(self, group: h5py.Group, depth: int = 0) -> dict[str, Any]:
        members: dict[str, Any] = {}
        if depth > MAX_DEPTH:
            raise ValueError(f"groups are nested more than {MAX_DEPTH} deep")
        for name in group:
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                continue
            item = group[name]
            info = h5py.h5o.get_info(item.id)
            if (info.fileno, info.addr) in self._seen:
                continue
            self._seen.add((info.fileno, info.addr))
            if len(self._seen) > MAX_OBJECTS:
                raise ValueError(f"holds more than {MAX_OBJECTS:,} objects")
            if isinstance(item, h5py.Group):
                members[_text(name)] = self.group(item, depth + 1)
            elif isinstance(item, h5py.Dataset):
                members[_text(name)] = self.array(item)
        return {"members": members, "attributes": _attributes(group)}

    def array(self, item: h5py.Dataset) -> dict[str, Any]:
        if item.dtype.kind in "SO" and item.shape == ():
            return {"text": _text(item[()])}
        if item.dtype.kind not in "fiub" or item.shape is None:
            return {"unread": str(item.dtype)}
        if item.external or item.is_virtual:
            raise ValueError(f"the numbers of {item.name!r} are in another file")
        place = -(-self._out.tell() // ALIGNMENT) * ALIGNMENT
        if place + item.size * item.dtype.itemsize > self._most:
            raise ValueError(f"{item.name!r} declares {list(item.shape)}, more than the file can hold")
        self._out.seek(place)
        values = np.asarray(item[()], order="C")
        self._out.write(values.data if values.size else b"")
        return {"dtype": values.dtype.str, "shape": list(item.shape), "place": place}


def _attributes(group: h5py.Group) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for name, value in group.attrs.items():
        if isinstance(value, str | bytes):
            attributes[_text(name)] = _text(value)
        elif isinstance(value, np.ndarray) and value.dtype.kind in "SO":
            attributes[_text(name)] = [_text(item) for item in value.ravel()]
    return attributes


def _text(value: Any) -> str:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def main(path: str, seconds: str, memory: str, most: str) -> None:
    """Read a file; the limits are seconds of work, bytes of memory, and bytes of all arrays."""
    signal.setitimer(signal.ITIMER_PROF, float(seconds))  # SIGPROF ends the process
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory), int(memory)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with h5py.File(path, "r") as file, Path("arrays").open("wb") as out:
            answer = _Tree(out, int(most)).group(file)
    except Exception as error:  # noqa: BLE001 - whatever h5py makes of a damaged file
        answer = {"error": " ".join(f"{error!s:.200}".split()) or type(error).__name__}
    Path("index.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
