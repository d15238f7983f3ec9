"""How a function is recorded: its call is a layer, its arguments are the settings."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.chainer.shim.arguments import bind
from netweave.formats.chainer.shim.recorder import Size, current
from netweave.formats.chainer.shim.registry import FUNCTIONS
from netweave.formats.chainer.shim.variable import Variable

if TYPE_CHECKING:
    from collections.abc import Callable


def function(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function; its call is a layer, unless a link's call is."""

    def register(made: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(made)
        name = names[0] if names else made.__name__

        @functools.wraps(made)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            given = bind(signature, args, kwargs, name=name)
            settings = {
                key: plain(value)
                for key, value in given.items()
                if plain(value) is not None and not isinstance(value, Variable)
            }
            with current().layer(name, name, settings):
                return made(*args, **kwargs)

        recorded.__name__ = name
        FUNCTIONS.update(dict.fromkeys(names or (made.__name__,), recorded))
        return recorded

    return register


def plain(value: Any) -> Any:
    """Return a setting as JSON can hold it, None if it cannot."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, Size) else value
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return None if None in items else items
    return None


def wrap(value: Any) -> Variable:
    """Return a value of the graph as a variable."""
    return Variable(value=value)


def pair(value: Any, count: int = 2) -> list[int]:
    """Return a setting for each axis, given once or for each."""
    return [int(each) for each in value] if isinstance(value, list | tuple) else [int(value)] * count
