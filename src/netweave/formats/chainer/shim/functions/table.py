"""The record of a function: its call is a layer, its arguments are the settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.chainer.shim.link import bind, parse_signature, without_modes
from netweave.formats.chainer.shim.recorder import ImageSize, Size, Variable, current
from netweave.formats.chainer.shim.registry import FUNCTIONS


def function(*names: str, takes: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function; its call is a layer, unless a link's call is.

    Args:
        names: Its names in ``chainer.functions``; by default its own.
        takes: Its signature as Chainer's documentation has it, where several functions of Chainer are one
            here; an argument that is none of the decorated function's changes nothing in a test.
    """

    def register(compute: Callable[..., Any]) -> Callable[..., Any]:
        own = inspect.signature(compute)
        signature = parse_signature(takes) if takes else own
        name = names[0] if names else compute.__name__

        def recorded(*args: Any, **kwargs: Any) -> Any:
            kwargs = without_modes(signature, kwargs)
            given = bind(signature, args, kwargs, name=name)
            settings = {
                key: plain(value)
                for key, value in given.items()
                if plain(value) is not None and not isinstance(value, Variable)
            }
            with current().within_layer(name, name, settings):
                if not takes:
                    return compute(*args, **kwargs)
                return compute(**{key: value for key, value in given.items() if key in own.parameters})

        recorded.__name__, recorded.__doc__ = name, compute.__doc__
        recorded.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
        FUNCTIONS.update(dict.fromkeys(names or (name,), recorded))
        return recorded

    return register


def plain(value: Any) -> Any:
    """Return a setting as JSON can hold it, None if it cannot."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, bool | int | float | str):
        return int(value) if isinstance(value, Size | ImageSize) else value
    if isinstance(value, list | tuple):
        items = [plain(item) for item in value]
        return None if None in items else items
    return None


def node(
    op_type: str, inputs: Sequence[Any], attributes: Mapping[str, Any] | None = None, *, domain: str = ""
) -> Variable:
    """Add a node over variables, values or numbers, and return its output as a variable."""
    return wrap(current().add(op_type, inputs, attributes, domain=domain))


def integers(numbers: Iterable[Any]) -> ir.Value:
    """Add a constant list of integers: axes, sizes, indices."""
    return current().integers(numbers)


def wrap(value: Any) -> Variable:
    """Return a value of the graph as a variable."""
    return Variable(value=value)


def pair(value: Any, count: int = 2) -> list[int]:
    """Return a setting for each axis, given once or for each."""
    return [int(each) for each in value] if isinstance(value, list | tuple) else [int(value)] * count
