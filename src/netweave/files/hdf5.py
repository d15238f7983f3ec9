"""Files of HDF5, read by another process: its library loops without end or crashes on some damaged files.

What comes back is the tree of groups, with the texts among their attributes, and datasets as arrays or texts.
The process needs no guard, since nothing in a file is run, but it has limits on its time and memory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Union

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files.decompression_limit import allowed_bytes
from netweave.installation import install_command

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"

SECONDS = 1.5
BYTES_PER_SECOND = 20_000_000
"""Processor time that a file may take: a little, and more for a large one; good files take a tenth of it."""

PATIENCE = 60
"""How much longer than that is waited, for a machine that is busy with other things."""

BASE_BYTES = 192 << 20
"""Memory of the process beside the arrays of the file, which may be as many as ``expansion`` allows."""


_ENDED_BY_TIME = {-signal.SIGPROF, -signal.SIGKILL}

Member = Union["Group", np.ndarray, str, None]


@dataclass(frozen=True, slots=True)
class Group:
    """A group of an HDF5 file.

    Attributes:
        name: Its path in the file, from ``/``.
        members: What is in it by name, in order; None for other things than numbers and one text.
        attributes: Its attributes that are texts, or lists of texts.
    """

    name: str
    members: Mapping[str, Member] = field(default_factory=dict)
    attributes: Mapping[str, str | list[str]] = field(default_factory=dict)

    def get(self, path: str) -> Member:
        """Return what is at a path from here; None if there is nothing."""
        member: Member = self
        for part in filter(None, path.split("/")):
            member = member.members.get(part) if isinstance(member, Group) else None
        return member

    def group(self, path: str) -> Group | None:
        """Return a group by its path from here; None if there is none."""
        member = self.get(path)
        return member if isinstance(member, Group) else None

    def arrays(self, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
        """Give all arrays in this group and those inside it, with their paths from here."""
        for name, member in self.members.items():
            if isinstance(member, Group):
                yield from member.arrays(f"{prefix}{name}/")
            elif isinstance(member, np.ndarray):
                yield prefix + name, member


def read_hdf5(content: Path | bytes, *, place: str, extra: str = "hdf5") -> Group:
    """Read a file of HDF5.

    Args:
        content: The file, or its bytes.
        place: Its name, for errors.
        extra: The extra of the package that brings h5py, for messages.

    Raises:
        ReadError: It is not a complete HDF5 file, or cannot be read within the limits.
        UsageError: h5py is not installed.
    """
    if find_spec("h5py") is None:
        raise UsageError(f"{place}: is HDF5, which needs h5py: {install_command(extra)}")
    with tempfile.TemporaryDirectory(prefix="netweave-") as folder:
        path = content.absolute() if isinstance(content, Path) else Path(folder) / "content"
        if isinstance(content, bytes):
            path.write_bytes(content)
        return _read(path, Path(folder), place)


def _read(path: Path, folder: Path, place: str) -> Group:
    num_bytes = path.stat().st_size
    seconds = SECONDS + num_bytes / BYTES_PER_SECOND
    most = allowed_bytes(num_bytes)
    memory = BASE_BYTES + most
    program = Path(__file__).with_name("hdf5_child.py")
    words = [sys.executable, "-P", "-s", str(program), str(path), str(seconds), str(memory), str(most)]
    child = subprocess.Popen(
        words,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        status = child.wait(PATIENCE * seconds)
    except subprocess.TimeoutExpired:
        status = -9
    finally:
        child.kill()
        child.wait()
    if status:
        how = (
            f"needs more than {seconds:.1f} seconds for it"
            if status in _ENDED_BY_TIME
            else "does not survive it"
        )
        raise ReadError(f"is damaged: HDF5's library {how}", place=place)
    answer = json.loads((folder / "index.json").read_text())
    if "error" in answer:
        raise ReadError(f"is not a complete HDF5 file: {answer['error']}", place=place)
    file = folder / "arrays"
    held: np.ndarray = np.memmap(file, np.uint8, "c") if file.stat().st_size else np.empty(0, np.uint8)
    return _group("/", answer, held)


def _group(name: str, answer: Mapping[str, Any], held: np.ndarray) -> Group:
    members: dict[str, Member] = {}
    for key, row in answer["members"].items():
        if "members" in row:
            members[key] = _group(f"{name.rstrip('/')}/{key}", row, held)
        elif "dtype" in row:
            dtype, count = np.dtype(row["dtype"]), int(np.prod(row["shape"], dtype=np.int64))
            numbers = held[row["place"] : row["place"] + count * dtype.itemsize]
            members[key] = np.asarray(numbers).view(dtype).reshape(row["shape"])
        else:
            members[key] = row.get("text")
    return Group(name, members, answer["attributes"])
