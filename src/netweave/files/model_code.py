"""Model classes in Python files, as guarded child processes take them: imported, found, and constructed."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files.argument_values import Settings, argument_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

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
        argument_files: Full paths of the files that the arguments name, by the texts that name them.
        as_tensor: Makes an array among the arguments what the framework takes.
    """

    base: type
    noun: str
    place: str
    entry: str | None = None
    arguments: str = ""
    config: Mapping[str, Any] | None = None
    argument_files: Mapping[str, str] = field(default_factory=dict)
    as_tensor: Callable[[np.ndarray], Any] = np.asarray

    @classmethod
    def of_request(
        cls,
        request: Mapping[str, Any],
        base: type,
        *,
        noun: str,
        as_tensor: Callable[[np.ndarray], Any] = np.asarray,
    ) -> Wanted:
        """Return what a child process was asked for."""
        return cls(
            base,
            noun,
            request["place"],
            entry=request.get("entry"),
            arguments=request.get("arguments") or "",
            config=request.get("config"),
            argument_files=request.get("argument_files") or {},
            as_tensor=as_tensor,
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
    made.model = factory(*positional, **named)
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
        named |= _from_config(signature, positional, named, wanted.config)
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
