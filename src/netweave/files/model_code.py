"""Model classes in Python files, as guarded child processes take them: imported, found, and made."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import ModuleType


def imported(path: Path, *, name: str = "netweave_model", folders: Sequence[str] = ()) -> ModuleType:
    """Import a file of code.

    Args:
        path: The file.
        name: What it is called as a module; with its packages, which are imported before it.
        folders: Where modules of it lie that are not beside it (``imports_of``).

    Raises:
        ReadError: It is no Python file.
    """
    sys.path[:0] = [str(path.parent)]
    sys.path += folders
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ReadError("cannot be imported as Python")
    if package := name.rpartition(".")[0]:
        importlib.import_module(package)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def own_factories(
    code: ModuleType, base: type
) -> tuple[dict[str, Callable[[], Any]], dict[str, Callable[[], Any]]]:
    """Return a file's own classes of a kind, and its functions, that take no arguments, by name."""
    own = {
        name: value
        for name, value in vars(code).items()
        if getattr(value, "__module__", "") == code.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
    }
    free = {name: value for name, value in own.items() if _takes_nothing_of(value, base)}
    classes: dict[str, Callable[[], Any]]
    classes = {name: value for name, value in free.items() if inspect.isclass(value)}
    functions: dict[str, Callable[[], Any]]
    functions = {n: v for n, v in free.items() if inspect.isfunction(v) and not n.startswith("_")}
    return classes, functions


def make(
    code: ModuleType,
    found: Mapping[str, Callable[[], Any]],
    base: type,
    *,
    wanted: str | None,
    place: str,
    noun: str,
) -> Any:
    """Return the model that the named class or function makes, or the only one that there is.

    Args:
        code: The imported file.
        found: What makes a model without arguments, by name.
        base: What a model must be.
        wanted: The name that was asked for.
        place: The file, for messages.
        noun: What a model is, for messages.

    Raises:
        UsageError: The name is not there or takes arguments, there are several, or what is made is no model.
    """
    if wanted is not None and not callable(getattr(code, wanted, None)):
        raise UsageError(f"has no class or function {wanted!r}; has: {', '.join(found) or 'none'}")
    if wanted is None and len(found) != 1:
        raise UsageError(
            f"has {len(found)} classes or functions that construct a model without arguments "
            f"({', '.join(found) or 'none'}), expected one: name it ({place}:{next(iter(found), 'make')})"
        )
    name = wanted or next(iter(found))
    factory = getattr(code, name)
    if required := _required(factory):
        raise UsageError(
            f"{name!r} takes {', '.join(required)}, expected a class or function that constructs a model "
            f"without arguments: add one, and name it ({place}:make)"
        )
    made = factory()
    if not isinstance(made, base):
        raise UsageError(f"{name!r} makes a {type(made).__name__}, expected {noun}")
    return made


def _takes_nothing_of(value: Any, base: type) -> bool:
    if inspect.isclass(value) and not issubclass(value, base):
        return False
    return not _required(value)


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
