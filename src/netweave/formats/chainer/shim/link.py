"""Links of Chainer."""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.recorder import Parameter, Variable
from netweave.formats.chainer.shim.registry import FUNCTIONS

__all__ = [
    "REMOVED",
    "ArgumentsError",
    "Chain",
    "ChainList",
    "Link",
    "Sequential",
    "Variable",
    "bind",
    "parse_signature",
]


class Link:
    """Holds parameters (``chainer.Link``); a subclass has ``forward`` or ``__call__``."""

    _is_open = False

    def __init__(self, **params: Any) -> None:
        self._params: dict[str, Parameter] = {}
        self._persistent: dict[str, Any] = {}
        self._is_open = False
        self.name: str | None = None
        for name, value in params.items():
            shape = value[0] if isinstance(value, tuple) and isinstance(value[0], tuple) else value
            self.add_param(name, shape)

    @property
    def xp(self) -> Any:
        """NumPy."""
        return np

    @property
    def device(self) -> Any:
        """Nothing."""
        return None

    @contextmanager
    def init_scope(self) -> Iterator[None]:
        """Register the parameters and links that are assigned inside."""
        before, self._is_open = self._is_open, True
        try:
            yield
        finally:
            self._is_open = before

    @property
    def within_init_scope(self) -> bool:
        """True if assignments register."""
        return self._is_open

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_is_open", False) and isinstance(value, Parameter):
            value.name = name
            self._params[name] = value
        super().__setattr__(name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Apply the link."""
        forward = getattr(self, "forward", None)
        if forward is None:
            raise CodeError(f"calls a {type(self).__name__}, which has neither forward nor __call__")
        return forward(*args, **kwargs)

    def add_param(self, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None) -> None:
        """Register a parameter under a name."""
        with self.init_scope():
            setattr(self, name, Parameter(initializer, shape, name))

    def add_uninitialized_param(self, name: str) -> None:
        """Register a parameter whose sizes the first call tells (Chainer 1)."""
        self.add_param(name)

    def add_persistent(self, name: str, value: Any) -> None:
        """Register a value that is saved with the link."""
        self._persistent[name] = value
        super().__setattr__(name, value)

    def register_persistent(self, name: str) -> None:
        """Register an attribute as one that is saved with the link."""
        self._persistent[name] = getattr(self, name)

    def namedparams(self, include_uninit: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path; the statistics that are saved with it too."""
        for name in sorted(self._params):
            yield f"/{name}", self._params[name]
        for name, value in self._persistent.items():
            if isinstance(value, Parameter):
                yield f"/{name}", value

    def params(self, include_uninit: bool = True) -> Iterator[Parameter]:
        """Every parameter."""
        return (parameter for _, parameter in self.namedparams())

    def namedpersistents(self) -> Iterator[str]:
        """Paths of what else is saved."""
        return (f"/{name}" for name in self._persistent)

    def namedlinks(self, skipself: bool = False) -> Iterator[tuple[str, Link]]:
        """This link and those in it, with their paths."""
        if not skipself:
            yield "/", self

    def links(self, skipself: bool = False) -> Iterator[Link]:
        """This link and those in it."""
        return (link for _, link in self.namedlinks(skipself))

    def children(self) -> Iterator[Link]:
        """The links in it, one level deep."""
        return iter(())

    def reset_for_trace(self) -> None:
        """Forget what a call before left: states, and sizes that it found."""
        for parameter in self.params():
            parameter.forget()
        for link in self.links():
            reset = getattr(link, "reset_state", None)
            if callable(reset):
                reset()

    def copy(self, mode: str = "share") -> Link:
        """A copy; with its own parameters unless they are shared."""
        return copy.copy(self) if mode == "share" else copy.deepcopy(self)

    def repeat(self, n_repeat: int, mode: str = "init") -> Sequential:
        """Copies of it one after another."""
        return Sequential(*(self.copy("init" if mode != "share" else mode) for _ in range(n_repeat)))

    def _itself(self, *args: Any, **kwargs: Any) -> Any:
        return self

    to_cpu = to_gpu = to_device = to_chx = to_intel64 = from_chx = _itself
    cleargrads = zerograds = disable_update = enable_update = count_params = _itself


class Chain(Link):
    """Links by name (``chainer.Chain``)."""

    def __init__(self, **links: Link) -> None:
        super().__init__()
        self._children: dict[str, Link] = {}
        for name, link in links.items():
            self.add_link(name, link)

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_is_open", False) and isinstance(value, Link):
            value.name = name
            self._children[name] = value
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._children.pop(name, None)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def add_link(self, name: str, link: Link) -> None:
        """Register a link under a name."""
        with self.init_scope():
            setattr(self, name, link)

    def _named_children(self) -> Iterable[tuple[str, Link]]:
        return sorted(self._children.items())

    def namedparams(self, include_uninit: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its path."""
        yield from super().namedparams()
        for name, link in self._named_children():
            for path, parameter in link.namedparams():
                yield f"/{name}{path}", parameter

    def namedpersistents(self) -> Iterator[str]:
        """Paths of what else is saved."""
        yield from super().namedpersistents()
        for name, link in self._named_children():
            yield from (f"/{name}{path}" for path in link.namedpersistents())

    def namedlinks(self, skipself: bool = False) -> Iterator[tuple[str, Link]]:
        """This link and those in it, with their paths."""
        yield from super().namedlinks(skipself)
        for name, link in self._named_children():
            yield from ((f"/{name}{path}".rstrip("/"), each) for path, each in link.namedlinks())

    def children(self) -> Iterator[Link]:
        """The links in it, one level deep."""
        return (link for _, link in self._named_children())


class ChainList(Chain):
    """Links by number (``chainer.ChainList``)."""

    def __init__(self, *links: Link) -> None:
        super().__init__()
        self._list: list[Link] = []
        for link in links:
            self.append(link)

    def append(self, link: Link) -> None:
        """Register a link under the next number."""
        link.name = str(len(self._list))
        self._list.append(link)

    add_link = append  # type: ignore[assignment]  # a ChainList has numbers where a Chain has names

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_is_open", False) and isinstance(value, Link):
            raise CodeError("assigns a link to a ChainList inside init_scope; use append")
        super().__setattr__(name, value)

    def __getitem__(self, index: Any) -> Any:
        return self._list[index]

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[Link]:
        return iter(self._list)

    def _named_children(self) -> Iterable[tuple[str, Link]]:
        return [(str(number), link) for number, link in enumerate(self._list)]


class Sequential(ChainList):
    """Links and functions, called one after another (``chainer.Sequential``)."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        self._layers: list[Callable[..., Any]] = []
        self._links: list[Link] = []
        for layer in layers:
            self.append(layer)

    def append(self, layer: Any) -> None:
        """Add a link or a function at the end.

        Chainer numbers links, and so names their arrays, in another order than they are called: each goes
        behind the place of the first link (``Sequential.insert`` of version 7).
        """
        if isinstance(layer, Link):
            first = next((place for place, each in enumerate(self._layers) if isinstance(each, Link)), 0)
            self._links.insert(first + 1 if self._layers else 0, layer)
        self._layers.append(layer)
        for name, link in self._named_children():
            link.name = name

    def extend(self, layers: Iterable[Any]) -> None:
        """Add several."""
        for layer in layers:
            self.append(layer)

    def __len__(self) -> int:
        return len(self._layers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._layers)

    def __getitem__(self, index: Any) -> Any:
        child = self._layers[index]
        return Sequential(*child) if isinstance(child, list) else child

    def _named_children(self) -> Iterable[tuple[str, Link]]:
        return [(str(number), link) for number, link in enumerate(self._links)]

    def forward(self, *x: Any) -> Any:
        """Every layer on what the one before made."""
        for layer in self._layers:
            x = layer(*x)
            if not isinstance(x, tuple):
                x = (x,)
        return x[0] if len(x) == 1 else x


REMOVED = frozenset({"deterministic", "test", "train", "use_bi_direction", "use_cudnn", "volatile", "wscale"})
"""Keywords of Chainer 1 that Chainer 7 refuses (``argument.check_unexpected_kwargs`` in its source)."""


MODES = frozenset({"deterministic", "test", "train", "use_cudnn", "volatile"})
"""Those of them that say in which mode to compute, or how; the trace has a mode of its own."""

modes_given: set[str] = set()
"""Those of ``MODES`` that the code of this process has given."""


class ArgumentsError(TypeError):
    """A function or link is given what it does not take, as Chainer's own TypeError says."""


def without_modes(signature: inspect.Signature, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call without those of Chainer 1 that say in which mode to compute."""
    modes = MODES & (kwargs.keys() - signature.parameters.keys())
    modes_given.update(modes)
    return {key: value for key, value in kwargs.items() if key not in modes}


def bind(
    signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str
) -> dict[str, Any]:
    """Return the arguments of a call by name, defaults included.

    Args:
        signature: What the function takes.
        args: Positional arguments.
        kwargs: Keyword arguments.
        name: The function's name, for messages.

    Raises:
        ArgumentsError: The function does not take them.
    """
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        removed = ", ".join(
            sorted(repr(key) for key in REMOVED & kwargs.keys() - signature.parameters.keys())
        )
        hint = (
            f"; {removed}: not supported any more since Chainer 2, use chainer.using_config"
            if removed
            else ""
        )
        raise ArgumentsError(f"{name}() {error}{hint}") from None
    bound.apply_defaults()
    return dict(bound.arguments)


def parse_signature(text: str) -> inspect.Signature:
    """Return a signature that is written as Chainer's documentation writes it.

    A name among the defaults is that of a recorded function.

    >>> parse_signature("ksize, stride=1, *, dilate=(1, 1)")
    <Signature (ksize, stride=1, *, dilate=(1, 1))>
    """
    (function,) = ast.parse(f"def f({text}): pass").body
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    required = [None] * (len(arguments.args) - len(arguments.defaults))
    rows = [
        *_rows(inspect.Parameter.POSITIONAL_OR_KEYWORD, arguments.args, [*required, *arguments.defaults]),
        *_rows(inspect.Parameter.VAR_POSITIONAL, [arguments.vararg] if arguments.vararg else [], [None]),
        *_rows(inspect.Parameter.KEYWORD_ONLY, arguments.kwonlyargs, arguments.kw_defaults),
    ]
    return inspect.Signature(rows)


def _rows(
    kind: inspect._ParameterKind, names: Sequence[ast.arg], defaults: Sequence[ast.expr | None]
) -> Iterator[inspect.Parameter]:
    for name, default in zip(names, defaults, strict=False):
        value: Any = inspect.Parameter.empty
        if default is not None:
            value = FUNCTIONS[default.id] if isinstance(default, ast.Name) else ast.literal_eval(default)
        yield inspect.Parameter(name.arg, kind, default=value)
