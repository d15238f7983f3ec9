"""``mx.nd.contrib.foreach`` and ``cond``: loops and branches of functions on arrays, run as Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from netweave.errors import UsageError
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.recording import scope


def foreach(body: Callable[[Any, Any], tuple[Any, Any]], data: Any, init_states: Any) -> tuple[Any, Any]:
    """Return what a function makes of each slice along axis 0, stacked, and the last states.

    Args:
        body: From a slice and the states to outputs and the next states; each an array, or nested lists.
        data: The array that is sliced, or nested lists of such arrays of one length.
        init_states: The first states.

    Raises:
        UsageError: There are no slices.
    """
    leaves = _leaves(data)
    steps = len(leaves[0]) if leaves else 0
    if not steps:
        raise UsageError("foreach: data has no slices along axis 0, expected one or more")
    states, made = init_states, []
    for step in range(steps):
        outputs, states = body(_changed(data, [one[step] for one in leaves]), states)
        made.append(outputs)
    columns = zip(*map(_leaves, made), strict=True)
    with scope():
        stacked = [NDArray(torch.stack([one.tensor for one in column])) for column in columns]
    return _changed(made[0], stacked), states


def cond(pred: Any, then_func: Callable[[], Any], else_func: Callable[[], Any]) -> Any:
    """Return what one of two functions gives, by an array of one element."""
    return then_func() if pred.asscalar() else else_func()


def _leaves(value: Any) -> list[NDArray]:
    """Return the arrays of nested lists, in order."""
    return [value] if isinstance(value, NDArray) else [leaf for one in value for leaf in _leaves(one)]


def _changed(value: Any, arrays: list[NDArray]) -> Any:
    """Return nested lists of the same form with other arrays."""
    rest = iter(arrays)

    def follow(one: Any) -> Any:
        return next(rest) if isinstance(one, NDArray) else [follow(each) for each in one]

    return follow(value)


CONTROL_FLOW: dict[str, Callable[..., Any]] = {"cond": cond, "foreach": foreach}
