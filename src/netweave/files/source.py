"""What a reader is given: the files of a net and what the caller says about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAX_BYTES = 8 << 30
"""A larger file is refused before it is read."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a net and the caller's wishes.

    Attributes:
        net: The file that describes the net.
        weights: The file of its stored arrays; None leaves the search for one to the reader.
        input_shapes: Input sizes by name, where the file does not say or other ones are wanted.
        phase: ``TEST`` or ``TRAIN``, for formats that know phases.
        stages: Names of stages, for formats that know them (Caffe's NetState).
        level: Level, for formats that know it (Caffe's NetState).
    """

    net: Path
    weights: Path | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    phase: str = "TEST"
    stages: tuple[str, ...] = ()
    level: int = 0

    def head(self, num_bytes: int = 4096) -> bytes:
        """Return the first bytes of the net file.

        Raises:
            ReadError: The file cannot be read.
        """
        try:
            with self.net.open("rb") as file:
                return file.read(num_bytes)
        except OSError as error:
            raise _unreadable(self.net, error) from error


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        ReadError: The file is missing, empty, a folder, too large, or cannot be read.
    """
    try:
        num_bytes = path.stat().st_size
        if path.is_dir():
            raise ReadError("is a folder, expected a file", place=str(path))
        if num_bytes > MAX_BYTES:
            raise ReadError(f"has {num_bytes:,} bytes, at most {MAX_BYTES:,} are read", place=str(path))
        content = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    if not content:
        raise ReadError("the file is empty; was it copied or downloaded whole?", place=str(path))
    return content


def _unreadable(path: Path, error: OSError) -> ReadError:
    if isinstance(error, FileNotFoundError):
        return ReadError("there is no such file; check the name and the folder", place=str(path))
    return ReadError(f"cannot be read: {error.strerror or error}", place=str(path))
