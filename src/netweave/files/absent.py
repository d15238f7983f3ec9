"""Packages that a model's file imports and that are not installed: modules whose names stand for nothing.

A port often imports ``cv2`` or ``torchvision`` for what it does around the net. Such names may be imported,
subclassed and used by decorators; a call of one, or a decision by one, while the net is made or run is an
error.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.files.absent_settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence


class Absent:
    """A name of a package that is not here."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing, or as a decorator what it decorates, while a file is imported; else an error."""
        if is_importing() and self._may_be_called():
            if len(args) == 1 and not kwargs and (inspect.isfunction(args[0]) or inspect.isclass(args[0])):
                return args[0]
            return type(self)(f"{self._name}()")
        raise CodeError(f"calls {self._name}, {self._why()}")

    def __bool__(self) -> bool:
        if is_importing():
            return False
        raise CodeError(f"decides by {self._name}, {self._why()}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(self)(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """A class of the net's own framework beside it stays the only base; else the first stands for one."""
        absent = [base for base in bases if isinstance(base, Absent)]
        return (_STAND_IN_BASE[-1](self._name),) if absent == list(bases) and absent[0] is self else ()

    def __getitem__(self, key: Any) -> Any:
        """A name still, as in annotations (``Tensor["n 3"]``)."""
        return type(self)(f"{self._name}[...]")

    def __iter__(self) -> Iterator[Any]:
        raise CodeError(f"iterates over {self._name}, {self._why()}")

    def __or__(self, other: Any) -> Any:
        return self  # an annotation: absent.Array | None

    __ror__ = __or__

    def _may_be_called(self) -> bool:
        """Return whether a call of it while a file is imported says nothing about the net."""
        return True

    def _why(self) -> str:
        """Say why it stands for nothing."""
        package = self._name.partition(".")[0]
        if package in _TEMPLATES:
            template = _TEMPLATES[package]
            return f"and {package}.py is not here: copy {template} to {package}.py, and fill it in"
        return (
            f"and {package!r} is not installed here: install it, or say where it lies (--root FOLDER of a "
            "repository; --trust for what PYTHONPATH names)"
        )


def plain_base(name: str) -> type:
    """Return ``object``, which has nothing that a class could inherit from one that is not here."""
    return object


_STAND_IN_BASE: list[Callable[[str], type]] = [plain_base]
"""The last gives the class that stands for an absent one as the base of another, by its name."""


@contextmanager
def with_bases(base: Callable[[str], type]) -> Iterator[None]:
    """Let classes of absent packages be other bases than ``object``, until the context ends.

    Args:
        base: Returns the class that stands for an absent one, by its full name.
    """
    _STAND_IN_BASE.append(base)
    try:
        yield
    finally:
        _STAND_IN_BASE.pop()


class AbsentModule(ModuleType):
    """A module with nothing in it; each of its names is absent, but for kinds of settings."""

    def __getattr__(self, name: str) -> Any:
        if name == "__version__" and is_importing():
            return "0.0.0"
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in SETTINGS:
            return SETTINGS[full]
        known = sys.modules.get(full)
        return Absent(full) if known is None else known


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds an empty module for each name of some packages.

    Args:
        names: The packages.
        kind: What their modules are.
    """

    def __init__(self, names: Collection[str], kind: type[ModuleType] = AbsentModule) -> None:
        self._names = names
        self._kind = kind

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module that is a package as well; None for one of other packages."""
        if not _is_of(name, self._names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        return self._kind(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def _is_of(name: str, packages: Collection[str]) -> bool:
    """Return whether a module is one of some packages or modules, or lies in one."""
    return any(name == package or name.startswith(f"{package}.") for package in packages)


_IS_IMPORTING: list[bool] = []
"""Holds something while a file of code is imported."""


def is_importing() -> bool:
    """Return whether a file of code is being imported."""
    return bool(_IS_IMPORTING)


@contextmanager
def importing() -> Iterator[None]:
    """Let calls of what is absent give nothing, such as decorators, until the context ends."""
    _IS_IMPORTING.append(True)
    try:
        yield
    finally:
        _IS_IMPORTING.pop()


_TEMPLATES: dict[str, str] = {}
"""Files that the user is to copy to modules that are not here, by the modules' names."""


@contextmanager
def without(names: Collection[str], templates: Mapping[str, str] | None = None) -> Iterator[None]:
    """Let packages that are not installed be imported all the same, until the context ends.

    Args:
        names: The packages.
        templates: Files that the user is to copy to some of them, by their names.
    """
    finder = Finder(frozenset(names))
    sys.meta_path.insert(0, finder)
    _TEMPLATES.clear()  # not at the end: a model is run, and decides by what is absent, after it is made
    _TEMPLATES.update(templates or {})
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_of(name, names)]:
            del sys.modules[name]
