"""The source of a net: its files, and the caller's options about them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from netweave.errors import ReadError
from netweave.files.library_errors import reason_of
from netweave.files.output_files import finish_moves

MISSING = "there is no such file; check the name and the folder"

MAX_BYTES = 8 << 30
"""A larger file is refused before it is read."""


POINTER = b"version https://git-lfs."
"""How a pointer of git-lfs begins (its specification: the version is the first line)."""


@dataclass(frozen=True, slots=True)
class Source:
    """The files of a net and the caller's wishes.

    Attributes:
        net: The file that describes the net.
        weights: The file of its stored arrays; None leaves the search for one to the reader.
        input_shapes: Input sizes by name, where the file does not say or other ones are wanted.
        phase: ``TEST`` or ``TRAIN``, for formats that know phases; SINGA's have ``VALIDATE`` too.
        stages: Names of stages, for formats that know them (Caffe's NetState; ``down`` of SINGA's RBMs).
        level: Level, for formats that know it (Caffe's NetState).
        entry: Name of the class or function in the net file that makes the net, for formats of Python code.
        trust: Whether code in the files may run without a guard around it.
        code: Whether files that are code may be read at all.
        around: Whether code may import modules from the folders around its own.
        arguments: What ``entry`` is called with, as Python literals (``3, classes=21``).
        config: Settings for ``entry``, besides or instead of arguments.
        needs_config: Whether it is an error if ``entry`` takes none of them.
        root: The folder that the imports of code start from; None finds it.
        module: Name of the code as a module of an installed package or of ``root``; empty for a file.
        likely_shapes: Sizes that code whose only input has none is tried with first.
        partial: Whether layers that cannot be read are left out, with all that need them.
    """

    net: Path
    weights: Path | None = None
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    phase: str = "TEST"
    stages: tuple[str, ...] = ()
    level: int = 0
    entry: str | None = None
    trust: bool = False
    code: bool = True
    around: bool = True
    arguments: str = ""
    config: Mapping[str, Any] | None = None
    needs_config: bool = False
    root: Path | None = None
    module: str = ""
    likely_shapes: tuple[tuple[int, ...], ...] = ()
    partial: bool = False

    def head(self, num_bytes: int = 4096) -> bytes:
        """Return the first bytes of the net file.

        Raises:
            ReadError: The file cannot be read.
        """
        return read_head(self.net, num_bytes)


def read_head(path: Path, num_bytes: int) -> bytes:
    """Return the first bytes of a file.

    Raises:
        ReadError: The file is missing, a folder, or cannot be read.
    """
    check_file(path)
    try:
        with path.open("rb") as file:
            return file.read(num_bytes)
    except OSError as error:
        raise unreadable(str(path), error) from error


def read_bytes(path: Path) -> bytes:
    """Return a file's content.

    Raises:
        ReadError: The file is missing, empty, a folder, a git-lfs pointer, too large, or cannot be read.
    """
    num_bytes = check_file(path)
    if num_bytes > MAX_BYTES:
        raise ReadError(f"has {num_bytes:,} bytes, expected at most {MAX_BYTES:,}", place=str(path))
    try:
        content = path.read_bytes()
    except OSError as error:
        raise unreadable(str(path), error) from error
    if not content:
        raise ReadError("the file is empty; was it copied or downloaded whole?", place=str(path))
    refuse_pointer(content, str(path))
    return content


def refuse_pointer(head: bytes, place: str) -> None:
    """Refuse a pointer of git-lfs, which stands in a repository for a large file.

    Raises:
        ReadError: The file begins as one does.
    """
    if head.startswith(POINTER):
        raise ReadError(
            "is a git-lfs pointer, not the file itself: run 'git lfs pull' in its repository, or download it",
            place=place,
        )


def is_file(path: Path) -> bool:
    """Return whether a path is a file; one that no file can have (too long, with a NUL) is not."""
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for a name that is too long)


def is_folder(path: Path) -> bool:
    """Return whether a path is a folder; one that nothing can have is not."""
    return os.path.isdir(path)  # noqa: PTH112 (Path.is_dir raises for a name that is too long)


def file_beside(folder: Path, name: str) -> Path | None:
    """Return the file of a name that a net mentions, if it lies in the net's folder.

    Nothing outside is looked at: a net from elsewhere must not name files of this machine.
    """
    path = folder / name
    if not name or not is_file(path):
        return None
    return path if path.resolve().is_relative_to(folder.resolve()) else None


def check_file(path: Path) -> int:
    """Return a file's size in bytes; a folder, a pipe and a device are refused before they are opened.

    Raises:
        ReadError: It is one, or missing.
    """
    try:
        with suppress(PermissionError):  # in a folder that may only be read, they wait for the next writer
            finish_moves(path)
        status = path.stat()
    except (OSError, ValueError) as error:
        raise unreadable(str(path), error) from error
    require_ordinary(status, str(path))
    return status.st_size


def require_ordinary(status: os.stat_result, place: str) -> None:
    """Refuse what is no ordinary file.

    Raises:
        ReadError: It is a folder, a pipe or a device.
    """
    if stat.S_ISDIR(status.st_mode):
        raise ReadError("is a folder, expected a file", place=place)
    if not stat.S_ISREG(status.st_mode):
        raise ReadError("is a pipe or a device, expected a file", place=place)


def unreadable(place: str, error: OSError | ValueError) -> ReadError:
    """Return the error for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return ReadError(MISSING, place=place)
    return ReadError(f"cannot be read: {reason_of(error)}", place=place)
