"""The links of ``chainer.links`` that are recorded, by name; the call of each is a layer of its path."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from netweave.formats.chainer.shim.functions.table import plain
from netweave.formats.chainer.shim.link import Link, bind, parse_signature, without_modes
from netweave.formats.chainer.shim.recorder import current

LINKS: dict[str, type[Link]] = {}
"""Every link by its name in ``chainer.links``."""

T = TypeVar("T", bound=type[Link])


def link(kind: T) -> T:
    """Register a link: what its constructor was given is its settings, and its call is a layer."""
    LINKS[kind.__name__] = settled(kind)
    return kind


def settled(kind: T) -> T:
    """Have a link's call be a layer, and what its constructor was given its settings."""
    first, forward = kind.__init__, kind.forward  # type: ignore[attr-defined]  # a link has one, T cannot say so
    signature, taken = inspect.signature(first), inspect.signature(forward)

    @functools.wraps(first)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs = without_modes(signature, kwargs)
        given = bind(signature, (self, *args), kwargs, name=kind.__name__)
        settings = {
            name: plain(value)
            for name, value in list(given.items())[1:]
            if plain(value) is not None and not name.startswith("initial")
        }
        first(self, *args, **kwargs)
        if type(self) is kind:
            object.__setattr__(self, "settings", settings)

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = without_modes(taken, kwargs)
        bind(taken, (self, *args), kwargs, name=f"{type(self).__name__}.forward")
        name = current().path_of(self) or type(self).__name__
        with current().within_layer(name, type(self).__name__, getattr(self, "settings", {})):
            return forward(self, *args, **kwargs)

    kind.__init__ = init  # type: ignore[method-assign]  # what the decorator is for
    kind.forward = call  # type: ignore[attr-defined]  # a link has one, T cannot say so
    return kind


FIRST_VALUES = (
    *("initial", "init", "upward_init", "lateral_init", "inner_init", "bias_init", "forget_bias_init"),
    *("dw_initial", "pw_initial"),
)
"""How arguments begin that say how weights are drawn: a net that is read has its weights from a file."""


class Signed:
    """Tells a type checker that ``takes`` writes the constructor."""

    if TYPE_CHECKING:

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...


def takes(text: str) -> Callable[[T], T]:
    """Give a link a constructor with Chainer's signature; its ``_build`` names the arguments that it needs.

    What a link does not build from changes nothing in a net that is read: how weights are drawn, on how many
    machines statistics are shared.

    Args:
        text: The signature as Chainer's documentation has it, without ``self``.
    """
    signature = parse_signature(text)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def register(kind: T) -> T:
        # what constructors with a signature build is built by ``_build``; only others come first
        own = (vars(each).get("__init__") for each in kind.__mro__[1:])
        first = next(init for init in own if init is not None and not hasattr(init, "__signature__"))

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            given = bind(signature, args, without_modes(signature, kwargs), name=kind.__name__)
            first(self)
            self._build(**_needed(type(self)._build, given))

        init.__signature__ = signature.replace(  # type: ignore[attr-defined]  # inspect reads it
            parameters=[this, *signature.parameters.values()]
        )
        kind.__init__ = init  # type: ignore[method-assign]  # what the decorator is for
        return kind

    return register


def _needed(build: Callable[..., None], given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that a function names; all but first values if it takes any."""
    parameters = inspect.signature(build).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return {name: value for name, value in given.items() if not name.startswith(FIRST_VALUES)}
    return {name: value for name, value in given.items() if name in parameters}


def composite(kind: T) -> T:
    """Register a link that is made of others; their calls are the layers."""
    forward = kind.forward  # type: ignore[attr-defined]  # a link has one, T cannot say so
    taken = inspect.signature(forward)

    @functools.wraps(forward)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs = without_modes(taken, kwargs)
        bind(taken, (self, *args), kwargs, name=f"{type(self).__name__}.forward")
        return forward(self, *args, **kwargs)

    kind.forward = call  # type: ignore[attr-defined]  # a link has one, T cannot say so
    LINKS[kind.__name__] = kind
    return kind
