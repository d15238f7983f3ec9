"""Names and modules that are imported when they are first used, and rest for the garbage collector.

Comparing needs no training and training no comparer, so a package's public names stand in its
``__init__.pyi``, which type checkers read as well, and each is imported from its module on first use (as
``lazy_loader`` does, which takes relative imports only).

``onnx_ir`` and ``onnx_shape_inference`` import sympy for sizes that are formulas. Nets of known sizes have
none, and sympy takes a quarter of a second to load. ``importlib.util.LazyLoader`` does not help: it executes
a module as soon as a second one imports it.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable, Collection, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

FORMULAS = frozenset(
    {
        "onnx_ir._symbolic_shapes",
        "onnx_shape_inference._constraints",
        "onnx_shape_inference._symbolic_shapes",
        "sympy",
    }
)
"""sympy, and the modules that use it while they are imported."""

K = TypeVar("K")
V = TypeVar("V")

_executing = RLock()

_IMPORT = re.compile(r"^from (\S+) import (\w+) as (\w+)$", re.MULTILINE)


def names_of_stub(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__all__``, ``__getattr__`` and ``__dir__`` of a package for the imports in its stub.

    Args:
        package: The package's ``__name__``.
        file: Its ``__file__``. Each import of ``__init__.pyi`` there is ``from module import name as name``.
    """
    stub = Path(file).with_suffix(".pyi").read_text(encoding="utf-8")
    homes = {name: (module, original) for module, original, name in _IMPORT.findall(stub)}

    def attribute(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = homes[name]
        if module == package:
            return import_module(f"{module}.{original}")
        return getattr(import_module(module), original)

    return sorted(homes), attribute, lambda: sorted({*vars(sys.modules[package]), *homes})


class Table(MutableMapping[K, V]):
    """Rows that modules enter while they are imported; all of them are imported when one is first looked up.

    So a module beside them, which needs no row, is imported without them and the libraries that they need.

    Args:
        package: The package that they are in.
        modules: Their names there.
    """

    def __init__(self, package: str, modules: Sequence[str]) -> None:
        self._modules = [f"{package}.{name}" for name in modules]
        self._rows: dict[K, V] = {}
        self._is_full = False

    def enter(self, key: K, make: Callable[[], V]) -> V:
        """Return the row of a key among those entered so far; a new one if there is none."""
        return self._rows.setdefault(key, make())

    def __getitem__(self, key: K) -> V:
        return self._filled()[key]

    def __setitem__(self, key: K, row: V) -> None:
        self._rows[key] = row

    def __delitem__(self, key: K) -> None:
        del self._rows[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._filled())

    def __len__(self) -> int:
        return len(self._filled())

    def _filled(self) -> dict[K, V]:
        if not self._is_full:
            for name in self._modules:  # another thread that imports one is waited for
                import_module(name)
            self._is_full = True
        return self._rows


def defer(names: Collection[str] = FORMULAS) -> None:
    """Have modules executed late that are not imported yet; for a process that is ours alone."""
    sys.meta_path.insert(0, _Finder(names))


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep Python's search for cycles off for a while.

    Reading or comparing a graph, or importing a library, makes hundreds of thousands of objects that all
    live on; looking for cycles among them again and again takes a quarter of the time. What became garbage
    is found afterwards.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Finder(MetaPathFinder):
    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname in self._names else None
        if spec is not None and spec.loader is not None:
            spec.loader = _Late(spec.loader)
        return spec


class _Late(Loader):
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = _Deferred
        module.__dict__.pop("__path__", None)  # so that the import of a module inside executes this one first


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        """Execute the module, of which something is missing, unless it is what is being executed."""
        with _executing:
            spec = self.__spec__
            late = spec.loader if spec is not None else None
            if spec is not None and isinstance(late, _Late):
                spec.loader = self.__loader__ = late.loader
                if spec.submodule_search_locations is not None:
                    self.__path__ = spec.submodule_search_locations
                late.loader.exec_module(self)
                self.__class__ = ModuleType  # type: ignore[assignment]  # it is a module like any other now
        return ModuleType.__getattribute__(self, name)
