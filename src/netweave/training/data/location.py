"""Whole files by name, here or elsewhere: a name with ``://`` is opened by fsspec.

Large files are read by ranges of bytes instead (``byte_file``).
"""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from netweave.errors import ReadError
from netweave.files.decompression_limit import gunzip
from netweave.files.library_errors import reason_of
from netweave.files.source import MISSING
from netweave.installation import need

_KEPT: list[tempfile.TemporaryDirectory[str]] = []
"""Folders of copies; they end with the process."""


def is_remote(name: str) -> bool:
    """Return whether a name is that of a file elsewhere: ``s3://bucket/train.rec``, ``memory://x``."""
    return "://" in name


def join(folder: str, name: str) -> str:
    """Return a file's name in a folder; an absolute name, or that of a file elsewhere, stays as it is.

    >>> join("/data", "cats/1.jpg"), join("/data", "/photos/1.jpg"), join("", "1.jpg")
    ('/data/cats/1.jpg', '/photos/1.jpg', '1.jpg')
    """
    if not folder or is_remote(name) or Path(name).is_absolute():
        return name
    return f"{folder.rstrip('/')}/{name}"


def part_name(name: str, number: str) -> str:
    """Return the name of one of the files that a set of records is split into.

    >>> part_name("s3://bucket/train.rec", "00007"), part_name("train_lmdb", "*")
    ('s3://bucket/train-00007.rec', 'train_lmdb-*')
    """
    folder, slash, last = name.rpartition("/")
    stem, dot, suffix = last.rpartition(".")
    return f"{folder}{slash}{stem}-{number}{dot}{suffix}" if stem else f"{name}-{number}"


def part_names(name: str) -> list[str]:
    """Return the files that a name stands for: those of a pattern, or the parts of a set that was split.

    Empty for a name that stands for itself, or for nothing.

    Raises:
        ReadError: A part is missing, or the store does not tell.
    """
    if "*" in name:
        return _matching(name)
    if exists(name) or not exists(part_name(name, "00000")):
        return []
    head, tail = (part.rpartition("/")[2] for part in part_name(name, "\0").split("\0"))
    numbered = re.compile(f"{re.escape(head)}([0-9]{{5,}}){re.escape(tail)}")
    parts = _matching(part_name(glob.escape(name), "[0-9]*"))
    numbers = {int(match[1]) for part in parts if (match := numbered.fullmatch(part.rpartition("/")[2]))}
    for number in range(max(numbers, default=0)):
        if number not in numbers:
            missing = part_name(name, f"{number:05d}")
            raise ReadError(f"is missing, one of the {max(numbers) + 1} parts of {name}", place=missing)
    return [part_name(name, f"{number:05d}") for number in sorted(numbers)]


def _matching(pattern: str) -> list[str]:
    if not is_remote(pattern):
        return sorted(glob.glob(pattern))  # noqa: PTH207 - pathlib cannot match an absolute pattern
    system = system_of(pattern)
    try:
        return sorted(system.unstrip_protocol(name) for name in system.glob(pattern))
    except Exception as error:  # each file system raises errors of its own library
        raise ReadError(f"cannot be looked for: {reason_of(error)}", place=pattern) from error


def read_file(name: str) -> bytes:
    """Return a file's content; that of a ``.gz`` unpacked.

    Raises:
        ReadError: The file is missing or cannot be read.
    """
    try:
        content = _fetch(name) if is_remote(name) else Path(name).read_bytes()
        return gunzip(content, place=name) if name.endswith(".gz") else content
    except FileNotFoundError as error:
        raise ReadError(MISSING, place=name) from error
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise ReadError(f"cannot be read: {error}", place=name) from error


def _fetch(name: str) -> bytes:
    try:
        return bytes(system_of(name).cat_file(name))
    except (FileNotFoundError, ReadError):
        raise
    except Exception as error:  # each file system raises errors of its own library
        raise ReadError(f"cannot be read: {reason_of(error)}", place=name) from error


def read_text(name: str) -> str:
    """Return a text file's content.

    Raises:
        ReadError: The file is missing, cannot be read, or is no text.
    """
    try:
        return read_file(name).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ReadError("is not UTF-8 text", place=name) from error


def local_copy(name: str) -> Path:
    """Return a path on this machine: the file or folder itself, or a copy of one elsewhere.

    Copies are kept for the life of the process. For small files (means), and stores that give no ranges.

    Raises:
        ReadError: There is no such file or folder.
    """
    if not is_remote(name):
        if not Path(name).exists():
            raise ReadError(MISSING, place=name)
        return Path(name)
    return _copied(name)


@cache
def _copied(name: str) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="netweave-")
    _KEPT.append(folder)
    target = Path(folder.name) / name.rstrip("/").rpartition("/")[2]
    try:
        system_of(name).get(name, str(target), recursive=True)
    except FileNotFoundError as error:
        raise ReadError(MISSING, place=name) from error
    except ReadError:
        raise
    except Exception as error:  # each file system raises errors of its own library
        raise ReadError(f"cannot be downloaded: {reason_of(error)}", place=name) from error
    return target


def exists(name: str) -> bool:
    """Return whether there is a file or folder of a name, here or elsewhere.

    Raises:
        ReadError: The store does not tell.
    """
    if not is_remote(name):
        return Path(name).exists()
    system = system_of(name)
    try:
        return bool(system.exists(name))
    except Exception as error:  # each file system raises errors of its own library
        raise ReadError(f"cannot be looked for: {reason_of(error)}", place=name) from error


def read_files(names: Sequence[str]) -> list[bytes]:
    """Return the content of several files; those elsewhere are fetched side by side.

    Raises:
        ReadError: As ``read_file``.
    """
    unique = list(dict.fromkeys(names))
    stores = {tuple(name.split("/")[:3]) for name in unique}
    if len(unique) < 2 or len(stores) > 1 or not is_remote(unique[0]):
        return [read_file(name) for name in names]
    try:  # not ``cat``, which expands brackets in names and sorts what it gives back
        whole = [None] * len(unique)
        answers = system_of(unique[0]).cat_ranges(unique, whole, whole, on_error="return")
    except ReadError:
        raise
    except Exception:  # noqa: BLE001 - each file system raises errors of its own library
        answers = [None] * len(unique)
    contents = {
        name: content
        for name, content in zip(unique, answers, strict=True)
        if isinstance(content, bytes) and not name.endswith(".gz")
    }
    # a failed one is read again alone, which raises the right error
    return [contents[name] if name in contents else read_file(name) for name in names]


def system_of(name: str) -> Any:
    """Return the fsspec file system of a URL.

    Raises:
        ReadError: There is no such protocol, or its package is not installed.
    """
    fsspec = need("fsspec", "files that are elsewhere")
    try:
        return fsspec.core.url_to_fs(name)[0]
    except (ValueError, ImportError) as error:
        raise ReadError(f"cannot be reached: {error}", place=name) from error


def lines_of(name: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not empty, with their numbers from 1.

    Raises:
        ReadError: As ``read_text``.
    """
    for number, line in enumerate(read_text(name).splitlines(), 1):
        if line.strip():
            yield number, line
