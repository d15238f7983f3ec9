"""``chainer`` and its modules, as the model's file imports them."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.standin.functions import FUNCTIONS
from netweave.formats.chainer.standin.link import Chain, ChainList, Link, Sequential
from netweave.formats.chainer.standin.links import LINKS
from netweave.formats.chainer.standin.variable import Parameter, Variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

VERSION = "7.8.1"
"""The version that code is told."""


class _Absent:
    """Something of Chainer that is not recorded: it may be imported and subclassed, but not called."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise CodeError(f"calls {self._name}, which is not recorded; see docs/how-to/read-a-chainer-model.md")

    def __getattr__(self, name: str) -> _Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


class _Initializer:
    """An initializer: first values are Netweave's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, array: Any) -> None:
        pass


class _Module(ModuleType):
    """A module whose other names are absent."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Absent(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of Chainer; those that are not made here are empty."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != "chainer":
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def _config(is_training: bool) -> SimpleNamespace:
    return SimpleNamespace(
        train=is_training,
        enable_backprop=True,
        debug=False,
        dtype=np.float32,
        use_cudnn="auto",
        cudnn_deterministic=False,
        autotune=False,
    )


def _module(name: str, content: dict[str, Any]) -> _Module:
    made = _Module(name)
    made.__path__ = []  # a package: its other modules are looked for as well
    for key, value in content.items():
        setattr(made, key, value)
    return made


def _initializers() -> dict[str, Any]:
    names = (
        "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LeCunNormal LeCunUniform NaN "
        "Normal One Orthogonal Uniform Zero UpsamplingDeconvFilter DownsamplingConvFilter"
    )
    return dict.fromkeys(names.split(), _Initializer) | {"Initializer": _Initializer}


def _cuda() -> dict[str, Any]:
    return {
        "available": False,
        "cudnn_enabled": False,
        "get_array_module": lambda *args: np,
        "to_cpu": lambda array, *args: array,
        "to_gpu": lambda array, *args: array,
        "ndarray": np.ndarray,
    }


def _modules(is_training: bool) -> dict[str, _Module]:
    config = _config(is_training)
    functions = _module("chainer.functions", dict(FUNCTIONS))
    links = _module("chainer.links", dict(LINKS))
    initializers = _module("chainer.initializers", _initializers())
    cuda = _module("chainer.backends.cuda", _cuda())
    backend = _module("chainer.backend", {"get_array_module": lambda *args: np})
    reporter = _module("chainer.reporter", {"report": lambda *args, **kwargs: None})
    as_variable = {"as_variable": lambda x: x if isinstance(x, Variable) else Variable(x)}
    chainer = _module(
        "chainer",
        {
            "__version__": VERSION,
            "Variable": Variable,
            "Parameter": Parameter,
            "Link": Link,
            "Chain": Chain,
            "ChainList": ChainList,
            "Sequential": Sequential,
            "config": config,
            "global_config": config,
            "using_config": _nothing,
            "no_backprop_mode": _nothing,
            "force_backprop_mode": _nothing,
            "report": lambda *args, **kwargs: None,
            "get_dtype": lambda dtype=None, *args, **kwargs: np.dtype(dtype or np.float32),
            "is_debug": lambda: False,
            "functions": functions,
            "links": links,
            "initializers": initializers,
            "cuda": cuda,
            "backend": backend,
            "reporter": reporter,
            **as_variable,
        },
    )
    named = [chainer, functions, links, initializers, cuda, backend, reporter]
    variable = _module("chainer.variable", {"Variable": Variable, "Parameter": Parameter, **as_variable})
    link = _module("chainer.link", {"Link": Link, "Chain": Chain, "ChainList": ChainList})
    return {module.__name__: module for module in [*named, variable, link]} | {"chainer.cuda": cuda}


@contextmanager
def installed(*, is_training: bool) -> Iterator[None]:
    """Let ``import chainer`` find the stand-in until the context ends.

    Args:
        is_training: What ``chainer.config.train`` says.
    """
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "chainer"}
    for name in before:
        del sys.modules[name]
    finder = _Finder()
    sys.modules.update(_modules(is_training))
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "chainer"]:
            del sys.modules[name]
        sys.modules.update(before)
