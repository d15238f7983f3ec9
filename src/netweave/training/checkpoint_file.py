"""Checkpoint files: one file, complete or not there, that knows when it is damaged.

A line that says what it is, a line that says which run wrote it, a line with the SHA-256 of that and of all
that follows, then a zip of ``state.json`` and ``.npy`` arrays.

A folder may hold checkpoints of several runs under one prefix. Which is the latest is said by the generation
of its run, not by its iteration (docs/decisions/0150).
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, WeightError
from netweave.files.atomic import finish_all_moves, write_file, writing
from netweave.files.expansion import check_expansion
from netweave.files.json_text import checked, parse_json
from netweave.files.npy import parse_npy
from netweave.files.zipped import read_member, zip_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from netweave.graph import Graph

MAGIC = b"netweave checkpoint 2\n"
MAGIC_WITHOUT_ORIGIN = b"netweave checkpoint 1\n"
SUFFIX = ".checkpoint"

STATE = "state.json"
"""The member that holds the values that are no arrays."""

_ORIGIN = re.compile(rb"(?P<run>[!-~]+) (?P<generation>\d{1,18})")


@dataclass(frozen=True, slots=True)
class Origin:
    """The run that wrote a checkpoint.

    Attributes:
        run: Name of the run; a run that is resumed keeps it. Empty where nobody says.
        generation: Of the start of the process that wrote it: higher than those of all checkpoints that were
            there before, so that the latest is known without a clock.
    """

    run: str = ""
    generation: int = 0

    def encode(self) -> bytes:
        """Return a line of the header; it has a checksum of its own, as it is read without the rest."""
        text = f"{self.run or '-'} {self.generation}".encode()
        return b"%s %08x\n" % (text, zlib.crc32(text))

    @classmethod
    def decode(cls, line: bytes, place: str) -> Origin:
        """Return what a line says.

        Raises:
            ReadError: The line is damaged.
        """
        text, _, checksum = line.rpartition(b" ")
        if checksum != b"%08x\n" % zlib.crc32(text):
            raise ReadError("is damaged: the checksum of its header does not match", place=place)
        match = _ORIGIN.fullmatch(text)
        if match is None:
            raise ReadError(f"is damaged: its header says {text!r:.60}", place=place)
        run = match["run"].decode()
        return cls("" if run == "-" else run, int(match["generation"]))


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that the rest of a run depends on.

    Attributes:
        state: JSON values.
        arrays: Arrays by name.
        origin: The run that wrote it.
    """

    state: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    origin: Origin = Origin()


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint; equal ones for equal checkpoints."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(_entry(STATE), json.dumps(checkpoint.state))
        for name, array in checkpoint.arrays.items():
            with archive.open(_entry(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
    origin, body = checkpoint.origin.encode(), content.getvalue()
    return MAGIC + origin + _digest(origin, body) + body


def _digest(origin: bytes, body: bytes) -> bytes:
    digest = hashlib.sha256(origin)
    digest.update(body)
    return digest.hexdigest().encode() + b"\n"


def write_checkpoint(path: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all.

    Raises:
        WriteError: It cannot be written; what was there before is still there.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, encode(checkpoint))


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
    header = io.BytesIO(content)
    origin_line = _origin_line(header, place)
    digest = header.readline()
    body = content[header.tell() :]
    if _digest(origin_line, body) != digest:
        raise ReadError("is damaged: its checksum does not match; use an earlier one", place=place)
    origin = Origin.decode(origin_line, place) if origin_line else Origin()
    with zip_errors(place, "a complete checkpoint"), zipfile.ZipFile(io.BytesIO(body)) as archive:
        check_expansion(sum(member.file_size for member in archive.infolist()), len(body), place=place)
        arrays = {
            name.removesuffix(".npy"): parse_npy(read_member(archive, name), place=f"{place}: {name!r:.200}")
            for name in archive.namelist()
            if name.endswith(".npy")
        }
        state = parse_json(read_member(archive, STATE), file=f"{place}: {STATE}", allow_nan=True)
    return Checkpoint(checked(state, dict, what="its state", place=place), arrays, origin)


def read_origin(path: Path) -> Origin:
    """Read only which run wrote a checkpoint; the rest of the file is not checked.

    Raises:
        ReadError: The file is missing, is no checkpoint, or its header is damaged.
    """
    try:
        with path.open("rb") as file:
            line = _origin_line(file, str(path))
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=str(path)) from error
    return Origin.decode(line, str(path)) if line else Origin()


def _origin_line(file: IO[bytes], place: str) -> bytes:
    """Read a header up to the line of the origin, and return that; empty where the version has none."""
    magic = file.readline()
    if magic == MAGIC:
        return file.readline()
    if magic == MAGIC_WITHOUT_ORIGIN:
        return b""
    raise ReadError("is not a Netweave checkpoint, or its header is damaged", place=place)


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
    """Return the checkpoints that are there, of any run, with their iterations, highest first."""
    start = Path(f"{prefix}_iter_")
    finish_all_moves(start)
    pattern = re.compile(re.escape(start.name) + r"(\d+)" + re.escape(SUFFIX))
    found = ((pattern.fullmatch(path.name), path) for path in start.parent.glob(f"*{SUFFIX}"))
    return sorted(((int(match[1]), path) for match, path in found if match), reverse=True)


def _by_age(prefix: str, tell: Callable[[ReadError], None]) -> list[tuple[Origin, Path]]:
    """Return the checkpoints whose origin can be read, latest first; tell of the others."""
    found = []
    for iteration, path in kept(prefix):
        try:
            origin = read_origin(path)
        except ReadError as error:
            tell(error)
        else:
            found.append((origin.generation, iteration, origin, path))
    return [(origin, path) for _, _, origin, path in sorted(found, key=lambda row: row[:2], reverse=True)]


def last_generation(prefix: str) -> int:
    """Return the highest generation of the checkpoints that are there; 0 if there are none."""
    return max((origin.generation for origin, _ in _by_age(prefix, lambda error: None)), default=0)


def latest(
    prefix: str,
    tell: Callable[[str], None] = lambda text: None,
    accepts: Callable[[Origin], bool] = lambda origin: True,
) -> tuple[Path, Checkpoint] | None:
    """Return the latest checkpoint that is whole; None if there is none at all.

    The latest is that of the run that was started last, whatever the iterations of earlier runs.

    Args:
        prefix: Of the names of its files.
        tell: Told of each damaged one that is passed over.
        accepts: Says whether a checkpoint of such an origin will do.

    Raises:
        ReadError: All of them are damaged.
    """
    damaged: list[ReadError] = []

    def pass_over(error: ReadError) -> None:
        tell(str(error))
        damaged.append(error)

    for origin, path in _by_age(prefix, pass_over):
        if not accepts(origin):
            continue
        try:
            return path, read_checkpoint(path)
        except ReadError as error:
            pass_over(error)
    if damaged:
        raise damaged[-1]
    return None


def prune(prefix: str, most: int, run: str) -> None:
    """Remove all but the latest checkpoints of a run; those of other runs stay."""
    own = [path for origin, path in _by_age(prefix, lambda error: None) if origin.run == run]
    for path in own[most:]:
        path.unlink(missing_ok=True)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def nested(arrays: Mapping[str, np.ndarray], group: str) -> Iterator[tuple[str, np.ndarray]]:
    """Give the arrays of a group, ``group:name``, by their own names."""
    for name, array in arrays.items():
        head, _, rest = name.partition(":")
        if head == group:
            yield rest, array
