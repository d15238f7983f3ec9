"""``chainer`` and its modules, as the model's file imports them; some names stand for nothing recorded."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import reduce
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from netweave.files.missing_modules import Absent as AbsentName
from netweave.files.missing_modules import Finder
from netweave.formats.chainer.dialect import OWN_MODULES
from netweave.formats.chainer.shim.chainercv import CV_LINKS
from netweave.formats.chainer.shim.functions import FUNCTIONS
from netweave.formats.chainer.shim.functions.array import FORMER
from netweave.formats.chainer.shim.functions.order import concat_examples
from netweave.formats.chainer.shim.link import Chain, ChainList, Link, Sequential
from netweave.formats.chainer.shim.links import LINKS
from netweave.formats.chainer.shim.recorder import Parameter, Variable

VERSION = "7.8.1"
"""The version that code is told."""


class _Initializer:
    """An initializer: first values are Netweave's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, array: Any) -> None:
        pass


def _using(config: SimpleNamespace) -> Callable[[str, Any], AbstractContextManager[None]]:
    @contextmanager
    def using_config(name: str, value: Any, *args: Any) -> Iterator[None]:
        before = getattr(config, name, None)
        setattr(config, name, value)
        try:
            yield
        finally:
            setattr(config, name, before)

    return using_config


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


def _module(name: str, content: dict[str, Any]) -> Module:
    module = Module(name)
    module.__path__ = []  # a package: its other modules are looked for as well
    for key, value in content.items():
        setattr(module, key, value)
    return module


def _initializers() -> dict[str, Any]:
    names = (
        "Constant GlorotNormal GlorotUniform HeNormal HeUniform Identity LeCunNormal LeCunUniform NaN "
        "Normal One Orthogonal Uniform Zero UpsamplingDeconvFilter DownsamplingConvFilter"
    )
    initializers = dict.fromkeys([*names.split(), "Initializer", "_get_initializer"], _Initializer)
    return initializers | {
        "generate_array": lambda initializer, shape, *args, **kwargs: np.zeros(shape, np.float32)
    }


def _cuda() -> dict[str, Any]:
    return {
        "available": False,
        "cudnn_enabled": False,
        "get_array_module": lambda *args: np,
        "to_cpu": lambda array, *args: array,
        "to_gpu": lambda array, *args: array,
        "ndarray": np.ndarray,
    }


def _static_graph(*args: Any, **kwargs: Any) -> Any:
    """Return what it decorates: a graph that is recorded once is what all of this makes."""
    return args[0] if args and callable(args[0]) else lambda call: call


def _six() -> dict[str, Module]:
    """Return what code for two versions of Python asks of ``six``, where that is not installed."""
    moves = {"range": range, "xrange": range, "zip": zip, "map": map, "filter": filter, "reduce": reduce}
    views = {
        "iteritems": lambda table: iter(table.items()),
        "iterkeys": lambda table: iter(table.keys()),
        "itervalues": lambda table: iter(table.values()),
    }
    types = {"string_types": (str,), "integer_types": (int,), "text_type": str, "binary_type": bytes}
    of_moves = _module("six.moves", moves)
    six = _module("six", {"moves": of_moves, "PY2": False, "PY3": True, **views, **types})
    return {"six": six, "six.moves": of_moves}


def _modules(is_training: bool) -> dict[str, Module]:
    config = _config(is_training)
    functions = _module("chainer.functions", FORMER | FUNCTIONS)
    links = _module("chainer.links", dict(LINKS))
    initializers = _module("chainer.initializers", _initializers())
    cuda = _module("chainer.backends.cuda", _cuda())
    backend = _module("chainer.backend", {"get_array_module": lambda *args: np})
    reporter = _module("chainer.reporter", {"report": lambda *args, **kwargs: None})
    settings = {"config": config, "global_config": config, "using_config": _using(config)}
    static = {"static_graph": _static_graph}
    optimizations = _module("chainer.graph_optimizations", static)
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
            **settings,
            "no_backprop_mode": _nothing,
            "force_backprop_mode": _nothing,
            "report": lambda *args, **kwargs: None,
            "get_dtype": lambda dtype=None, *args, **kwargs: np.dtype(dtype or np.float32),
            "is_debug": lambda: False,
            "cuda": cuda,
            **static,
            **as_variable,
        },
    )
    configuration = _module("chainer.configuration", settings)
    variable = _module("chainer.variable", {"Variable": Variable, "Parameter": Parameter, **as_variable})
    link = _module("chainer.link", {"Link": Link, "Chain": Chain, "ChainList": ChainList})
    convert = _module("chainer.dataset.convert", {"concat_examples": concat_examples})
    dataset = _module("chainer.dataset", {"concat_examples": concat_examples, "convert": convert})
    parts = [configuration, functions, links, initializers, backend, reporter, variable, link, dataset]
    parts.append(optimizations)
    for part in parts:
        setattr(chainer, part.__name__.rpartition(".")[2], part)
    named = [chainer, *parts, cuda, convert]
    return {module.__name__: module for module in named} | {"chainer.cuda": cuda}


@contextmanager
def _variables_stay() -> Iterator[None]:
    """Let ``xp.asarray(x)`` of a variable be the variable: there is no array that it could be copied to."""
    with ExitStack() as stack:
        for name in ("array", "asarray", "ascontiguousarray"):
            stack.enter_context(patch.object(np, name, _unless_variable(getattr(np, name))))
        yield


def _unless_variable(function: Callable[..., Any]) -> Callable[..., Any]:
    def convert(data: Any, *args: Any, **kwargs: Any) -> Any:
        return data if isinstance(data, Variable) else function(data, *args, **kwargs)

    return convert


@contextmanager
def installed(*, is_training: bool, missing: Collection[str] = ()) -> Iterator[None]:
    """Let ``import chainer`` find the stand-in until the context ends.

    Args:
        is_training: What ``chainer.config.train`` says.
        missing: Modules that are not installed: they may be imported as well, but nothing of them be called,
            except for ``chainercv``.
    """
    names = {*OWN_MODULES, *missing}
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}
    for name in before:
        del sys.modules[name]
    finder = Finder(names, Module)
    sys.modules.update(_modules(is_training))
    if "six" in missing:
        sys.modules.update(_six())
    sys.meta_path.insert(0, finder)
    try:
        with _variables_stay():
            yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] in names]:
            del sys.modules[name]
        sys.modules.update(before)


class Absent(AbsentName):
    """Something that is not recorded: it may be imported, subclassed, and used while a file is imported."""

    def _may_be_called(self) -> bool:
        return not self._name.startswith(("chainer.functions.", "chainer.links."))

    def _why(self) -> str:
        return "which is not supported; see docs/how-to/read-a-chainer-model.md"


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
