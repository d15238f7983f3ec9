"""Which files of code a model's file imports from beside itself, found without running any of them."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


MAX_FILES = 1000
"""So many files are followed."""

MAX_FILE_BYTES = 1 << 20
"""A larger file is no code that somebody wrote."""

LEVELS = 4
"""A module that is not installed is looked for in the folders around the file as well, so many in all.

Nothing outside is looked at: code from elsewhere must not bring in files of this machine.
"""


@dataclass(frozen=True, slots=True)
class Imports:
    """What a file of code imports.

    Attributes:
        name: What the file itself is called as a module: with its packages, if it imports relatively.
        folders: Where modules lie that are not in the file's own folder.
        files: The files of these modules and of all that they import, without the file itself.
        missing: Modules that are neither there nor installed, and that no ``try`` lets a file do without.
    """

    name: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    missing: tuple[str, ...]

    def places(self, path: Path, place: str) -> dict[str, str]:
        """Return the names of the imported files for messages, by their full paths.

        Args:
            path: The resolved file that imports them.
            place: Its name for messages, which theirs start from.
        """
        around = Path(place).parent
        return {
            str(file): os.path.normpath(around / os.path.relpath(file, path.parent)) for file in self.files
        }


def imports_of(path: Path, *, known: Collection[str] = (), levels: int = LEVELS) -> Imports:
    """Return what a file imports from its own folder and those around it, and so on from there.

    Args:
        path: The resolved file.
        known: Modules that are never looked for, besides Python's own.
        levels: How many folders are looked in, the file's own first, >= 1.
    """
    within = list(path.parents)[:levels]
    seen = _Seen(within, frozenset(known) | sys.stdlib_module_names)
    seen.follow(path)
    package = _package_of(path, depth=max((row.level for row in _rows(path)), default=0))
    name = ".".join([*package, path.stem]) if package else "netweave_model"
    roots = [path.parents[len(package)]] if package else []
    folders = tuple(dict.fromkeys([*roots, *seen.folders]))
    return Imports(name, folders, tuple(sorted(seen.files - {path})), tuple(sorted(seen.missing)))


@dataclass(frozen=True, slots=True)
class _Row:
    """An import: the module's name, how many folders up it starts, and the names taken from it."""

    module: str
    level: int
    names: tuple[str, ...]
    is_needed: bool


@dataclass(slots=True)
class _Seen:
    """What was found so far.

    Attributes:
        within: The folders that are looked in: the file's own, the one around it, and so on.
        known: Modules that are never looked for.
        files: Files of modules.
        folders: Folders of modules but the file's own.
        missing: Modules that are nowhere.
    """

    within: Sequence[Path]
    known: frozenset[str]
    files: set[Path] = field(default_factory=set)
    folders: list[Path] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)

    def follow(self, path: Path) -> None:
        """Add what a file imports, and what that imports."""
        waiting = [path]
        while waiting and len(self.files) < MAX_FILES:
            each = waiting.pop()
            if each in self.files:
                continue
            self.files.add(each)
            for row in _rows(each):
                waiting += filter(self._is_within, self._found(each, row))

    def _is_within(self, path: Path) -> bool:
        return path.is_relative_to(self.within[-1])

    def _found(self, path: Path, row: _Row) -> Iterator[Path]:
        if row.level:
            base = path.parents[row.level - 1] if row.level <= len(path.parents) else path.parent
            if not self._is_within(base):
                return
            yield from _files_of(base, row)
            yield from _initial(base)
            return
        top = row.module.partition(".")[0]
        folder = None if top in self.known else self._folder_of(top)
        if folder is not None:
            yield from _files_of(folder, row)
        elif row.is_needed and top not in self.known and not _is_installed(top):
            self.missing.add(top)

    def _folder_of(self, top: str) -> Path | None:
        own, *around = self.within
        if _is_module(own, top):
            return own
        if _is_installed(top):
            return None
        found = next((folder for folder in around if _is_module(folder, top)), None)
        if found is not None:
            self.folders.append(found)
        return found


@cache
def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _is_module(folder: Path, name: str) -> bool:
    inside = folder / name
    if inside.with_name(f"{name}.py").is_file():
        return True
    return inside.is_dir() and any(any(inside.glob(pattern)) for pattern in ("*.py", "*/*.py"))


def _files_of(folder: Path, row: _Row) -> Iterator[Path]:
    """Give the files of a module in a folder, with those of its packages and of the modules in it."""
    place = folder
    for part in filter(None, row.module.split(".")):
        place = place / part
        yield from _file(place)
    for name in row.names:
        yield from _file(place / name)
    if "*" in row.names:
        yield from _file(place)


def _file(place: Path) -> Iterator[Path]:
    for path in (place.with_name(f"{place.name}.py"), place / "__init__.py"):
        if path.is_file():
            yield path.resolve()


def _initial(folder: Path) -> Iterator[Path]:
    """Give what Python runs of a package before a module in it."""
    while (folder / "__init__.py").is_file():
        yield (folder / "__init__.py").resolve()
        folder = folder.parent


def _package_of(path: Path, *, depth: int) -> list[str]:
    """Return the packages that a file is in, outermost first; none if it does not import relatively."""
    found: list[str] = []
    folder = path.parent
    while depth and folder.name and (len(found) < depth or (folder / "__init__.py").is_file()):
        found.insert(0, folder.name)
        folder = folder.parent
    return found if len(found) >= depth else []


def _rows(path: Path) -> list[_Row]:
    """Return the imports of a file; none of one that is no Python."""
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it says of its own escapes
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    spared = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and node.handlers
        for statement in node.body
        for inner in ast.walk(statement)
    }
    rows: list[_Row] = []
    for node in ast.walk(tree):
        is_needed = id(node) not in spared
        if isinstance(node, ast.Import):
            rows += [_Row(alias.name, 0, (), is_needed) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            rows.append(_Row(node.module or "", node.level, names, is_needed))
    return rows
