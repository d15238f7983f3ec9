"""Copies of files and folders that a child of root could not open as another user.

A server keeps uploads as 0600, and people their models in folders of mode 0700. The modes of the files
themselves stay: they may have other links.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path


def readable_copies(paths: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Copy the files, and the folders with all that is in them, that other users may not read.

    Args:
        paths: Files and folders.
        folder: Where copies are made; it need not exist.

    Returns:
        The copies by what they are of.
    """
    copies: dict[Path, Path] = {}
    for path in {path.resolve() for path in paths}:
        if all(map(_is_readable, _all_in(path))):
            continue
        folder.mkdir(exist_ok=True)
        copies[path] = folder / str(len(copies))
        if path.is_dir():
            _copy_folder(path, copies[path], root=path)
        else:
            _copy_file(path, copies[path])
    return copies


def _all_in(path: Path) -> Iterator[Path]:
    """Yield a path and what lies in it; links are not followed."""
    yield path
    for folder, folders, files in os.walk(path):
        yield from (path.joinpath(folder, name) for name in (*folders, *files))


def _is_readable(path: Path) -> bool:
    """Return whether another user may open a file or folder; of others, such as links, nothing is copied."""
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        return mode & (stat.S_IROTH | stat.S_IXOTH) == stat.S_IROTH | stat.S_IXOTH
    return not stat.S_ISREG(mode) or bool(mode & stat.S_IROTH)


def _copy_folder(source: Path, target: Path, *, root: Path) -> None:
    """Copy a folder that lies in another, or is it.

    A link that leads out of it is left out: it would give code in it what its user may not read.
    """
    target.mkdir()
    for path in source.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            _copy_folder(path, target / path.name, root=root)
        elif stat.S_ISREG(mode):
            _copy_file(path, target / path.name)
        elif stat.S_ISLNK(mode) and path.resolve().is_relative_to(root):
            target.joinpath(path.name).symlink_to(path.readlink())
    target.chmod(0o755)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(0o444)
