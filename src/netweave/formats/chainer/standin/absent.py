"""What is imported and not recorded: modules with nothing in them, and names that stand for nothing."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.standin.chainercv import CV_LINKS
from netweave.formats.chainer.standin.functions import FUNCTIONS
from netweave.formats.chainer.standin.links import LINKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence


class Absent:
    """Something that is not recorded: it may be imported, subclassed, and used while a file is imported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing, while a file is imported; else an error that names it."""
        if _IS_IMPORTING and not self._name.startswith(("chainer.functions.", "chainer.links.")):
            return Absent(f"{self._name}()")
        raise CodeError(f"calls {self._name}, which is not recorded; see docs/how-to/read-a-chainer-model.md")

    def __bool__(self) -> bool:
        if _IS_IMPORTING:
            return False
        raise CodeError(f"decides by {self._name}, which is not recorded")

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


_IS_IMPORTING: list[bool] = []
"""Holds something while a file of code is imported."""


@contextmanager
def importing() -> Iterator[None]:
    """Let calls of what is not recorded give nothing, such as decorators, until the context ends."""
    _IS_IMPORTING.append(True)
    try:
        yield
    finally:
        _IS_IMPORTING.pop()


class Module(ModuleType):
    """A module whose other names are absent, unless it is one of functions or of links."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        own = self.__name__
        if (known := sys.modules.get(f"{own}.{name}")) is not None:
            return known
        if own.startswith(("chainercv.links", "chainercv.experimental.links")) and name in CV_LINKS:
            return CV_LINKS[name]
        family, _, rest = own.removeprefix("chainer.").partition(".")
        if rest and name in _TABLES.get(family, {}):
            return _TABLES[family][name] if "." in rest else importlib.import_module(f"{own}.{name}")
        return Absent(f"{own}.{name}")


_TABLES: dict[str, Mapping[str, Any]] = {"functions": FUNCTIONS, "links": LINKS}
"""What the modules in the packages of a family hold: each what it is called after."""


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of Chainer, and those that are missing; what is not made here is empty."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """A module that is a package as well; None for one of others."""
        if name.partition(".")[0] not in self._names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty one."""
        return Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""
