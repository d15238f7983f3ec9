"""Cache of what children made of code, by the content of all that they read.

Whoever ports a net compares it again and again, and mostly changes one side. What a guarded child left is
kept under a digest of its request and of the files that it may read. It is used while the modules that it
imported, those of Netweave and of installed packages among them, are as they were.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

MOST_READ_BYTES = 1 << 30
"""Largest total size of the files that are hashed; with more, hashing would take too long itself."""

MOST_FILES = 2_000
"""Files in folders that a child may read; of more, nothing is kept."""

MOST_ENTRY_BYTES = 1 << 28
"""A larger answer is not kept."""

MOST_BYTES = 1 << 30
"""All answers take at most so much; the ones that were used longest ago are removed."""

IMPORTED = "imported.json"
"""File in which a child names the files of all modules that it imported."""

MOST_IMPORTED_BYTES = 1 << 22
"""A larger list is taken for none."""

STAMPS = "stamps.json"
"""File of an entry with the size and time of each of these files, as they were."""


def cache_folder() -> Path:
    """Return the folder of all that Netweave keeps only to save time; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netweave"


def folder() -> Path:
    """Return the folder of the cache; it need not exist."""
    return cache_folder() / "readings"


def key_of(
    program: Path, request: Mapping[str, Any], files: Iterable[Path], arrays: Path | None
) -> str | None:
    """Return the digest of a request and of all that a child may read; None if that is too much.

    Args:
        program: The child's program.
        request: What it is asked.
        files: Files and folders that it may read.
        arrays: A further file, wherever it lies.
    """
    total = 0
    digest = hashlib.blake2b(digest_size=20)
    words = [str(program), sys.version, request, _packages()]
    digest.update(json.dumps(words, sort_keys=True, default=str).encode())
    try:
        listed = [path for file in dict.fromkeys(files) for path in _all_in(file)]
        for path in listed:
            total += path.stat().st_size
        if total > MOST_READ_BYTES or len(listed) > MOST_FILES:
            return None
        named = {path: str(path) for path in listed} | ({arrays: ""} if arrays is not None else {})
        for path, name in named.items():
            with path.open("rb") as file:
                content = hashlib.file_digest(file, hashlib.blake2b)
            digest.update(f"{name}\0".encode() + content.digest())
    except OSError:
        return None
    return digest.hexdigest()


def found(key: str, names: Sequence[str]) -> list[Path] | None:
    """Return the files of an answer; None if it is not here, or a module has changed since."""
    entry = folder() / key
    try:
        stamps = json.loads((entry / STAMPS).read_bytes())
        if any(_stamp(path) != stamp for path, stamp in stamps.items()):
            return None
        os.utime(entry)
    except (OSError, ValueError):
        return None
    paths = [entry / name for name in names]
    return paths if all(path.is_file() for path in paths) else None


def keep(key: str, paths: Sequence[Path], imported: Path | None) -> None:
    """Keep the files of an answer, if they are not too large and can be written.

    Args:
        key: As ``key_of`` gives it.
        paths: The files.
        imported: What the child says that it imported.
    """
    if imported is None or sum(path.stat().st_size for path in paths) > MOST_ENTRY_BYTES:
        return
    with suppress(OSError, ValueError, TypeError):
        stamps = {str(name): _stamp(str(name)) for name in json.loads(imported.read_bytes())}
        top = folder()
        top.mkdir(parents=True, exist_ok=True, mode=0o700)
        made = Path(tempfile.mkdtemp(dir=top))
        try:
            for path in paths:
                shutil.copyfile(path, made / path.name)
            (made / STAMPS).write_text(json.dumps(stamps))
            shutil.rmtree(top / key, ignore_errors=True)
            made.rename(top / key)
        finally:
            shutil.rmtree(made, ignore_errors=True)
        _remove_old(top)


def _remove_old(top: Path) -> None:
    entries = sorted(top.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    total = 0
    for entry in entries:
        total += sum(path.stat().st_size for path in entry.iterdir())
        if total > MOST_BYTES:
            shutil.rmtree(entry, ignore_errors=True)


def _all_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = (Path(folder, name) for folder, _, names in os.walk(path, followlinks=True) for name in names)
    return sorted(islice(inside, MOST_FILES + 1))  # links may lead round in a circle


def _packages() -> list[str]:
    """Return the names of installed packages, with their versions: one that is new may be imported."""
    folders = [path for path in map(Path, sys.path) if path.name == "site-packages" and path.is_dir()]
    return sorted(entry.name for path in folders for entry in path.glob("*.dist-info"))


def _stamp(path: str) -> list[int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - of thousands of files
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns]
