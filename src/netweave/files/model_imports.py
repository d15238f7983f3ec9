"""Files of code that a model's file imports from beside itself, found without running any."""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from netweave.files.source import Source


MAX_FILES = 1000
"""So many files are followed."""

MAX_FILE_BYTES = 1 << 20
"""A larger file is no code that somebody wrote."""

LEVELS = 4
"""A module that is not installed is looked for in the folders around the file as well, so many in all.

Nothing outside is looked at: code from elsewhere must not bring in files of this machine.
"""

MAX_LEVELS = 8
"""So many folders where a mark of a repository's top lies that far up."""

TOP_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
"""What lies in the top folder of a repository, from which its imports start."""


@dataclass(frozen=True, slots=True)
class Imports:
    """The imports of a file of code.

    Attributes:
        name: What the file itself is called as a module: with its packages, if it imports relatively.
        folders: Where modules lie that are not in the file's own folder.
        first: Those folders that go before the file's own and all installed packages: the root that the
            caller named, or one whose package has the name of a module in the file's own folder.
        is_own_used: Whether modules in the file's own folder are imported by their bare names; a file
            ``net/net.py`` that imports ``net.parts`` from above must not stand in its way.
        files: The files of these modules and of all that they import, without the file itself.
        missing: Modules that are neither there nor installed, and that no ``try`` lets a file do without:
            first names of packages, and dotted names of modules that a package beside the file lacks.
        templates: Names of files that the user is to copy to missing modules, such as
            ``config_template.py``, by the modules' names.
    """

    name: str
    folders: tuple[Path, ...]
    files: tuple[Path, ...]
    missing: tuple[str, ...]
    first: tuple[Path, ...] = ()
    is_own_used: bool = True
    templates: Mapping[str, str] = field(default_factory=dict)

    def request(self) -> dict[str, Any]:
        """Return what a child process is told that imports the file."""
        return {
            "name": self.name,
            "folders": [str(folder) for folder in self.folders],
            "first": [str(folder) for folder in self.first],
            "is_own_used": self.is_own_used,
            "missing": self.missing,
            "templates": self.templates,
        }

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


def imports_of_source(source: Source, *, known: Collection[str] = ()) -> Imports:
    """Return what a model's file imports from beside itself; nothing of the packages that it runs on.

    Args:
        source: The file.
        known: As in ``imports_of``.
    """
    if source.module and source.root is None:  # an installed package, which the child process can see
        return Imports(source.module, (), (), ())
    root = source.root.resolve() if source.root is not None else None
    return imports_of(source.net.resolve(), known=known, levels=None if source.around else 1, root=root)


def imports_of(
    path: Path, *, known: Collection[str] = (), levels: int | None = None, root: Path | None = None
) -> Imports:
    """Return what a file imports from its own folder and those around it, and so on from there.

    Args:
        path: The resolved file.
        known: Modules that are never looked for, besides Python's own.
        levels: How many folders are looked in, the file's own first, >= 1; by default up to the top of the
            repository that the file lies in.
        root: The folder that imports start from, if the caller knows it. A file elsewhere, such as a wrapper
            of a repository's class, finds there what is neither around it nor installed.
    """
    elsewhere = None
    if root is not None and not path.is_relative_to(root):
        root, elsewhere = None, root
    within = list(path.parents)[: _levels(path) if levels is None else levels]
    if root is not None:
        within = [*(folder for folder in path.parents if folder.is_relative_to(root))]
    repository = min(_top(path) or 0, len(within) - 1) if root is None else len(within) - 1
    seen = _Seen(within, frozenset(known) | sys.stdlib_module_names, root, elsewhere, repository)
    seen.follow(path)
    if root is not None:
        package = list(path.parent.relative_to(root).parts)
        seen.add(_initial(path.parent))
    else:
        package = _package_of(path, depth=max((row.level for row in _rows(path)), default=0))
    name = ".".join([*package, path.stem]) if package else "netweave_model"
    roots = [path.parents[len(package)]] if package and root is None else []
    folders = tuple(dict.fromkeys([*roots, *seen.folders]))
    first = (root,) if root is not None else tuple(dict.fromkeys(seen.first))
    files = tuple(sorted(seen.files - {path}))
    missing = tuple(sorted(seen.missing))
    templates = {each: found for each in missing if (found := _template(each, within))}
    return Imports(name, folders, files, missing, first, seen.is_own_used, templates)


def _levels(path: Path) -> int:
    """Return how many folders there are up to the top of a repository, at least ``LEVELS``."""
    top = _top(path)
    return LEVELS if top is None else max(top + 1, LEVELS)


def _top(path: Path) -> int | None:
    """Return which folder around a file, counted from its own, is the top of a repository."""
    for number, folder in enumerate(list(path.parents)[:MAX_LEVELS]):
        if any((folder / mark).exists() for mark in TOP_MARKS):
            return number
    return None


def _template(module: str, folders: Sequence[Path]) -> str:
    """Return the name of the file that a repository has in the place of a module; empty if there is none."""
    word = "(?:default|dist|example|sample|template)s?"
    named = re.compile(rf"{re.escape(module)}(?:[._-]{word}\.py|\.py[._-]{word})")
    names = (path.name for folder in folders for path in sorted(folder.glob(f"{module}*")))
    return next(filter(named.fullmatch, names), "")


def imported_packages(path: Path) -> list[str]:
    """Return the first names of what a file imports, without those from beside itself by relative imports."""
    return list(dict.fromkeys(row.module.partition(".")[0] for row in _rows(path) if not row.level))


@dataclass(frozen=True, slots=True)
class _Row:
    """An import: the module's name, how many folders up it starts, and the names taken from it."""

    module: str
    level: int
    names: tuple[str, ...]
    is_needed: bool


@dataclass(slots=True)
class _Seen:
    """The modules found so far.

    Attributes:
        within: The folders that are looked in: the file's own, the one around it, and so on.
        known: Modules that are never looked for.
        root: The folder that all imports start from, if that is known.
        elsewhere: A folder that is no parent of the file, and that the caller names for its imports.
        repository: Which of the folders is the top of the repository, or the root; 0 where there is none.
        files: Files of modules.
        folders: Folders of modules but the file's own.
        first: Those of them that have to be looked in before the file's own.
        is_own_used: Whether an import starts from the file's own folder.
        missing: Modules that are nowhere: first names of packages, and dotted names of modules of a package.
    """

    within: Sequence[Path]
    known: frozenset[str]
    root: Path | None = None
    elsewhere: Path | None = None
    repository: int = 0
    files: set[Path] = field(default_factory=set)
    folders: list[Path] = field(default_factory=list)
    first: list[Path] = field(default_factory=list)
    is_own_used: bool = False
    missing: set[str] = field(default_factory=set)

    def follow(self, path: Path) -> None:
        """Add what a file imports, and what that imports."""
        self.add([path])

    def add(self, paths: Iterable[Path]) -> None:
        """Add files, and what they import.

        Raises:
            ReadError: One is a link out of the repository.
        """
        waiting = list(paths)
        while waiting and len(self.files) < MAX_FILES:
            named = waiting.pop()
            each = named.resolve()
            if each in self.files:
                continue
            self._refuse_link(named, each)
            self.files.add(each)
            for row in _rows(each):
                waiting += filter(self._is_within, self._found(each, row))

    def _refuse_link(self, named: Path, file: Path) -> None:
        """Refuse a file that a link leads to from elsewhere: a text of this machine, which would be quoted.

        Links inside a repository, and inside the folder of the model where there is none, are followed.
        """
        tops = [self.within[self.repository], *([self.elsewhere] if self.elsewhere else [])]
        if file != named and not any(file.is_relative_to(top) for top in tops):
            raise ReadError(
                "is a link out of the folder of the model and is therefore not read; copy the file there",
                place=str(named),
            )

    def _is_within(self, path: Path) -> bool:
        tops = [self.within[-1], *([self.elsewhere] if self.elsewhere else [])]
        return any(path.is_relative_to(top) for top in tops)

    def _found(self, path: Path, row: _Row) -> Iterator[Path]:
        if row.level:
            base = path.parents[row.level - 1] if row.level <= len(path.parents) else path.parent
            if not self._is_within(base):
                return
            yield from _files_of(base, row)
            yield from _initial(base)
            return
        top = row.module.partition(".")[0]
        folder = None if top in self.known else self._folder_of(row)
        self.is_own_used |= folder == self.within[0]
        if folder is not None:
            files = list(_files_of(folder, row))
            yield from files
            if not files and row.is_needed and not folder.joinpath(*row.module.split(".")).is_dir():
                self.missing.add(row.module)  # an extension that the repository compiles
        elif row.is_needed and top not in self.known and not _is_installed(top):
            self.missing.add(top)

    def _folder_of(self, row: _Row) -> Path | None:
        """Return the folder that an import starts from; None if that is nowhere, or a package is installed.

        Of several folders that have the first name, one that has the module goes before: ``utils.py`` beside
        the file does not stand for ``utils.layers`` of the folder above.
        """
        top = row.module.partition(".")[0]
        own, *around = self.within
        if self.root is not None:
            having = [folder for folder in (self.root, own) if _is_module(folder, top)]
            return having[0] if having else None
        beside = _is_module(own, top)
        if beside and (not (around or self.elsewhere) or _is_there(own, row)):
            return own
        if not beside and _is_installed(top):
            return None
        further = [*around, *([self.elsewhere] if self.elsewhere else [])]
        having = [folder for folder in further if _is_module(folder, top)]
        exact = [folder for folder in having if _is_there(folder, row)]
        if beside and not exact:
            return own
        found = next(iter([*exact, *having]), None)
        if found is not None:
            self.folders.append(found)
            if beside:
                self.first.append(found)
        return found


def _is_installed(name: str) -> bool:
    return _is_found_outside(name, Path.cwd())


@cache
def _is_found_outside(name: str, working: Path) -> bool:
    """Return whether a module can be imported from elsewhere than the working folder.

    ``python -m netweave`` looks there first, so that the packages of a repository seem installed when it is
    started in the repository's own folder; the sandbox would not have them.
    """
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return False
    if spec is None:
        return False
    places = [*(spec.submodule_search_locations or ()), *([spec.origin] if spec.origin else [])]
    return not any(Path(place).parent == working for place in places if not place.endswith("__init__.py"))


def _is_module(folder: Path, name: str) -> bool:
    inside = folder / name
    if inside.with_name(f"{name}.py").is_file():
        return True
    return inside.is_dir() and any(any(inside.glob(pattern)) for pattern in ("*.py", "*/*.py"))


def _is_there(folder: Path, row: _Row) -> bool:
    """Return whether a folder holds the imported module itself, not just its top-level package."""
    place = folder.joinpath(*row.module.split("."))
    return place.with_name(f"{place.name}.py").is_file() or place.is_dir()


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
            yield path


def _initial(folder: Path) -> Iterator[Path]:
    """Give what Python runs of a package before a module in it."""
    while (folder / "__init__.py").is_file():
        yield folder / "__init__.py"
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
