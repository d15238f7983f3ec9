"""Checkpoint files: one file, complete or not there, that knows when it is damaged.

A line that says what it is, a line with the SHA-256 of all that follows, then a zip of ``state.json`` and
``.npy`` arrays. It is written under another name, flushed to the disk and renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, RunError, WeightError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from netweave.graph import Graph

MAGIC = b"netweave checkpoint 1\n"
SUFFIX = ".checkpoint"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that the rest of a run depends on.

    Attributes:
        state: JSON values.
        arrays: Arrays by name.
    """

    state: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(repr=False)


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint; equal ones for equal checkpoints."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(_entry("state.json"), json.dumps(checkpoint.state))
        for name, array in checkpoint.arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
    body = content.getvalue()
    return MAGIC + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; see ``write_whole``."""
    write_whole(path, encode(checkpoint))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there whole or not at all, whatever happens in between.

    Raises:
        RunError: It cannot be written; what was there before is still there.
    """
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _flush_names(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise RunError(
            f"{path}: cannot be written: {error.strerror or error}; earlier files are unchanged"
        ) from error


def _flush_names(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a power cut takes none back."""
    with contextlib.suppress(OSError):  # not every system opens folders
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        ReadError: The file is missing, is no checkpoint, or is not as it was written.
    """
    place = str(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=place) from error
    if not content.startswith(MAGIC):
        raise ReadError("is not a Netweave checkpoint, or its header is damaged", place=place)
    digest, _, body = content[len(MAGIC) :].partition(b"\n")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ReadError("is damaged: its checksum does not match; use an earlier one", place=place)
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        arrays = {
            name.removesuffix(".npy"): np.lib.format.read_array(
                io.BytesIO(archive.read(name)), allow_pickle=False
            )
            for name in archive.namelist()
            if name.endswith(".npy")
        }
        return Checkpoint(json.loads(archive.read("state.json")), arrays)


def parameters_in(path: Path, graph: Graph) -> dict[str, np.ndarray]:
    """Return what a checkpoint has for a net, by key; what only one of them has is left alone.

    Raises:
        ReadError: The file is missing, is no checkpoint, or is not as it was written.
        WeightError: An array is of another size than in the net.
    """
    known = graph.parameters
    found = {key: array for key, array in nested(read_checkpoint(path).arrays, "param") if key in known}
    for key, array in found.items():
        if array.shape != known[key].shape:
            raise WeightError(
                f"its {key} is {array.shape}, that of the net {known[key].shape}", place=str(path)
            )
    return found


def checkpoint_path(prefix: str, iteration: int) -> Path:
    """Return the name of the checkpoint of an iteration."""
    return Path(f"{prefix}_iter_{iteration}{SUFFIX}")


def kept(prefix: str) -> list[tuple[int, Path]]:
    """Return the checkpoints that are there, with their iterations, latest first."""
    start = Path(f"{prefix}_iter_")
    pattern = re.compile(re.escape(start.name) + r"(\d+)" + re.escape(SUFFIX))
    found = ((pattern.fullmatch(path.name), path) for path in start.parent.glob(f"*{SUFFIX}"))
    return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)


def latest(
    prefix: str,
    tell: Callable[[str], None] = lambda text: None,
    accepts: Callable[[Mapping[str, Any]], bool] = lambda state: True,
) -> tuple[Path, Checkpoint] | None:
    """Return the latest checkpoint that is whole; None if there is none at all.

    Args:
        prefix: Of the names of its files.
        tell: Told of each damaged one that is passed over.
        accepts: Says whether a checkpoint with this state will do.

    Raises:
        ReadError: All of them are damaged.
    """
    last: ReadError | None = None
    for _, path in kept(prefix):
        try:
            checkpoint = read_checkpoint(path)
        except ReadError as error:
            tell(str(error))
            last = error
        else:
            if accepts(checkpoint.state):
                return path, checkpoint
    if last is not None:
        raise last
    return None


def prune(prefix: str, most: int) -> None:
    """Remove all but the latest checkpoints."""
    for _, path in kept(prefix)[most:]:
        path.unlink(missing_ok=True)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def nested(arrays: Mapping[str, np.ndarray], group: str) -> Iterator[tuple[str, np.ndarray]]:
    """Give the arrays of a group, ``group:name``, by their own names."""
    for name, array in arrays.items():
        head, _, rest = name.partition(":")
        if head == group:
            yield rest, array
