"""Imports of a model's code."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files.python_code import Settings, argument_values
from netweave.files.source import Source

if TYPE_CHECKING:
    from types import ModuleType


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
        nearest = next(iter([*exact, *having]), None)
        if nearest is not None:
            self.folders.append(nearest)
            if beside:
                self.first.append(nearest)
        return nearest


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
    packages: list[str] = []
    folder = path.parent
    while depth and folder.name and (len(packages) < depth or (folder / "__init__.py").is_file()):
        packages.insert(0, folder.name)
        folder = folder.parent
    return packages if len(packages) >= depth else []


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


SCRIPTS = frozenset({"main", "train", "test", "demo", "run", "evaluate", "predict", "parse_args", "get_args"})
"""Functions that take no arguments and construct no model; they are not called unless they are named."""

MOST_SIGNATURES = 8
"""How many classes and functions a message names."""


def imported(
    path: Path,
    *,
    name: str = "netweave_model",
    folders: Sequence[str] = (),
    first: Sequence[str] = (),
    is_own_used: bool = True,
) -> ModuleType:
    """Import a file of code.

    Args:
        path: The file.
        name: What it is called as a module; with its packages, which are imported before it.
        folders: Where modules of it lie that are not beside it (``imports_of``).
        first: Those of them that are looked in before its own folder.
        is_own_used: Whether it imports modules in its own folder by their bare names.

    Raises:
        ReadError: It is no Python file.
    """
    sys.argv[:] = [str(path)]  # code that reads options while it is imported finds none
    own = [str(path.parent)]
    sys.path[:0] = [*first, *(own if is_own_used else [])]
    # a part of a package finds others by its package; ``nets/nets.py`` must not stand for ``nets``
    sys.path += [*folders, *(own if not (is_own_used or first or "." in name) else [])]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ReadError("cannot be imported as Python")
    if path.name == "__init__.py" and "." not in name:  # a package may import its own parts
        return importlib.import_module(name)
    if package := name.rpartition(".")[0]:
        importlib.import_module(package)
    there = sys.modules.get(name)  # the package may have imported it; a second copy would have other classes
    if there is not None and getattr(there, "__file__", None) == str(path):
        return there
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@contextmanager
def in_folder(folder: str | None) -> Iterator[None]:
    """Run code in the folder that its user started from, so that it finds files by relative names.

    Args:
        folder: The folder; None for code that the user does not trust, which is kept where it is.
    """
    before = Path.cwd()
    if folder is not None:
        os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The caller's description of the model in a file.

    Attributes:
        base: What a model must be.
        noun: What a model is, for messages.
        place: The file, for messages.
        entry: Name of the class or function; None for the only one.
        arguments: What it is called with, as literals.
        config: Settings for it.
        needs_config: Whether it must take some of them.
        argument_files: Full paths of the files that the arguments name, by the texts that name them.
        as_tensor: Makes an array among the arguments what the framework takes.
        adapted: Makes a model of something else that a class or function may return, such as a function.
    """

    base: type
    noun: str
    place: str
    entry: str | None = None
    arguments: str = ""
    config: Mapping[str, Any] | None = None
    needs_config: bool = False
    argument_files: Mapping[str, str] = field(default_factory=dict)
    as_tensor: Callable[[np.ndarray], Any] = np.asarray
    adapted: Callable[[Any], Any] = field(default=lambda made: made)

    @classmethod
    def of_request(
        cls,
        request: Mapping[str, Any],
        base: type,
        *,
        noun: str,
        as_tensor: Callable[[np.ndarray], Any] = np.asarray,
        adapted: Callable[[Any], Any] = lambda made: made,
    ) -> Wanted:
        """Return what a child process was asked for."""
        return cls(
            base,
            noun,
            request["place"],
            entry=request.get("entry"),
            arguments=request.get("arguments") or "",
            config=request.get("config"),
            needs_config=bool(request.get("needs_config")),
            argument_files=request.get("argument_files") or {},
            as_tensor=as_tensor,
            adapted=adapted,
        )


def own_factories(
    code: ModuleType, base: type
) -> tuple[dict[str, Callable[..., Any]], dict[str, Callable[..., Any]]]:
    """Return a file's own classes of a kind, and its functions, that take no arguments, by name."""
    classes, functions = _own(code, base)
    return (
        {name: value for name, value in classes.items() if not _required(value)},
        {name: value for name, value in functions.items() if not _required(value) and name not in SCRIPTS},
    )


def _own(code: ModuleType, base: type) -> tuple[dict[str, Callable[..., Any]], dict[str, Callable[..., Any]]]:
    own = {n: v for n, v in vars(code).items() if getattr(v, "__module__", "") == code.__name__}
    classes: dict[str, Callable[..., Any]]
    classes = {n: v for n, v in own.items() if inspect.isclass(v) and issubclass(v, base)}
    functions: dict[str, Callable[..., Any]]
    functions = {n: v for n, v in own.items() if inspect.isfunction(v) and not n.startswith("_")}
    return classes, functions


@dataclass(slots=True)
class Constructed:
    """A model and what to tell the user of how it was constructed."""

    model: Any
    notes: list[str] = field(default_factory=list)


def construct(code: ModuleType, candidates: Mapping[str, Callable[..., Any]], wanted: Wanted) -> Constructed:
    """Return the model that the named class or function constructs, or the only one that there is.

    Args:
        code: The imported file.
        candidates: What constructs a model without arguments, by name.
        wanted: What the caller says.

    Raises:
        UsageError: The name is not there, arguments are missing or wrong, there are several candidates, or
            what is constructed is no model.
    """
    name = wanted.entry or _only(code, candidates, wanted)
    factory = _named(code, name, candidates, wanted)
    if isinstance(factory, wanted.base):  # a module-level ``model = Net()``
        return Constructed(factory)
    made = Constructed(None)
    positional, named = _arguments(factory, name, wanted, made.notes)
    made.model = wanted.adapted(factory(*positional, **named))
    if not isinstance(made.model, wanted.base):
        raise UsageError(f"{name!r} makes a {type(made.model).__name__}, expected {wanted.noun}")
    return made


def _only(code: ModuleType, candidates: Mapping[str, Callable[..., Any]], wanted: Wanted) -> str:
    if len(candidates) == 1:
        return next(iter(candidates))
    classes, functions = _own(code, wanted.base)
    if wanted.config is not None and len(classes) == 1:
        return next(iter(classes))
    names = ", ".join(candidates) or "none"
    with_arguments = {
        n: v for n, v in {**classes, **functions}.items() if n not in candidates and _required(v)
    }
    shown = _signatures(with_arguments if not candidates else {})
    listed = f"; with arguments: {shown}" if shown else ""
    example = next(iter(candidates), None) or _example(with_arguments) or "make"
    raise UsageError(
        f"has {len(candidates)} classes or functions that construct a model without arguments ({names}), "
        f"expected one: name it ({wanted.place}:{example}){listed}"
    )


def _example(factories: Mapping[str, Callable[..., Any]]) -> str:
    """Return a call of the last factory, which is the whole net more often than its parts are."""
    if not factories:
        return ""
    name, factory = list(factories.items())[-1]
    return f"{name}({', '.join(f'{argument}=...' for argument in _required(factory))})"


def _signatures(factories: Mapping[str, Callable[..., Any]]) -> str:
    rows = [f"{name}{_signature(factory)}" for name, factory in factories.items()]
    more = f" and {len(rows) - MOST_SIGNATURES} more" if len(rows) > MOST_SIGNATURES else ""
    return ", ".join(rows[-MOST_SIGNATURES:]) + more


def _signature(factory: Callable[..., Any]) -> str:
    """Return the arguments that a class or function takes, without their types."""
    signature = inspect.signature(factory)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))[:200]


def _named(code: ModuleType, name: str, candidates: Mapping[str, Any], wanted: Wanted) -> Any:
    value: Any = code
    for part in name.split("."):
        value = getattr(value, part, None)
    if callable(value) or isinstance(value, wanted.base):
        return value
    classes, functions = _own(code, wanted.base)
    there = ", ".join(dict.fromkeys([*candidates, *classes, *functions])) or "none"
    raise UsageError(f"has no class or function {name!r}; has: {there}")


def _arguments(
    factory: Callable[..., Any], name: str, wanted: Wanted, notes: list[str]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that a factory is called with: those in its name, and settings of the file."""
    positional, named = argument_values(wanted.arguments, wanted.argument_files, wanted.as_tensor)
    try:
        signature = inspect.signature(factory)
    except ValueError:  # some that are not written in Python
        return positional, named
    if wanted.config is not None:
        settings = _from_config(signature, positional, named, wanted.config)
        named |= settings
        if wanted.needs_config and not settings:
            raise UsageError(
                f"{name}{_signature(factory)} takes none of the settings of the shrunk config.json, so its "
                "sizes are those of its own code: give it an argument for the configuration, or name a "
                f"function that reads the folder ({wanted.place}:load('FOLDER'))"
            )
        if not (named or positional):
            notes.append(f"the settings are not used: {name} takes none of {', '.join(wanted.config)}")
    try:
        signature.bind(*positional, **named)
    except TypeError as error:
        missing = [each for each in _required(factory)[len(positional) :] if each not in named]
        call = f"{wanted.place}:{name}({', '.join(f'{each}=...' for each in missing)})"
        if missing:
            raise UsageError(
                f"{name!r} takes {', '.join(missing)}, expected a value for each: give literals ({call}), or "
                f"settings in a file (--config FILE); its arguments are {name}{_signature(factory)}"
            ) from error
        raise UsageError(f"{name}{_signature(factory)} does not take these arguments: {error}") from error
    return positional, named


def _from_config(
    signature: inspect.Signature,
    positional: Sequence[Any],
    named: Mapping[str, Any],
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the settings as arguments: whole to the one argument that none of them is for, else by name."""
    settings = Settings(config)
    free = [p for p in list(signature.parameters.values())[len(positional) :] if p.name not in named]
    ordinary = {p.name for p in free if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}}
    required = [p.name for p in free if p.default is p.empty and p.name in ordinary]
    unmet = [each for each in required if each not in settings]
    if len(unmet) == 1:
        return {unmet[0]: settings}
    if any(p.kind is p.VAR_KEYWORD for p in free):
        return dict(settings)
    return {key: value for key, value in settings.items() if key in ordinary}


def _required(factory: Callable[..., Any]) -> list[str]:
    """Return the arguments that a class or function needs; none of one that does not say."""
    try:
        arguments = inspect.signature(factory).parameters
    except ValueError:  # some that are not written in Python
        return []
    return [
        name
        for name, argument in arguments.items()
        if argument.default is argument.empty
        and argument.kind not in {argument.VAR_POSITIONAL, argument.VAR_KEYWORD}
    ]
