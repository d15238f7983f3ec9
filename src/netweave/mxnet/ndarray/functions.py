"""Functions of ``mx.nd``: the operators of the table on arrays, and what chooses one by its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.mxnet.imperative import invoke
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.operators import take_apart
from netweave.mxnet.recording import scope
from netweave.runtime.backends.torch.losses import bounded
from netweave.runtime.images.decode import decode


def is_array(value: Any) -> bool:
    """Return whether a value is an input of an operator."""
    return isinstance(value, NDArray)


@cache
def operator_function(op: str) -> Callable[..., Any]:
    """Return the function that applies an operator of the table to arrays."""

    def function(*args: Any, out: Any = None, name: str | None = None, ctx: Any = None, **kwargs: Any) -> Any:
        call = take_apart(op, args, kwargs, is_array)
        inputs = [one.tensor for one in call.inputs]
        named = {key: one.tensor for key, one in call.named.items()}
        arrays = [NDArray(tensor) for tensor in invoke(op, inputs, named, call.settings)]
        if not call.inputs and ctx is not None:
            arrays = [one.as_in_context(ctx) for one in arrays]
        return deliver(arrays, out)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"Apply the operator {op} to arrays; settings are those of ``mx.sym.{op}``."
    return function


NDArray.operator_function = staticmethod(operator_function)


def deliver(arrays: Sequence[NDArray], out: Any) -> Any:
    """Return the outputs of an operator: one array or a list, or ``out`` with their elements.

    Raises:
        UsageError: ``out`` has another number of arrays, or other shapes.
    """
    if out is not None:
        outs = list(out) if isinstance(out, list | tuple) else [out]
        if len(outs) != len(arrays):
            raise UsageError(f"out has {len(outs)} arrays, and the operator gives {len(arrays)}")
        for one, target in zip(arrays, outs, strict=True):
            one.copyto(target)
        return out
    return arrays[0] if len(arrays) == 1 else list(arrays)


def _of_pair(op: str, sign: Callable[[Any, Any], Any] | None = None) -> Callable[..., Any]:
    """Return a function of two operands of which one may be a number."""

    def function(lhs: Any, rhs: Any, out: Any = None) -> Any:
        if isinstance(lhs, NDArray) and isinstance(rhs, NDArray):
            return operator_function(f"broadcast_{op}")(lhs, rhs, out=out)
        if not isinstance(lhs, NDArray) and not isinstance(rhs, NDArray):
            raise UsageError(f"{op} of {lhs!r:.40} and {rhs!r:.40}: expected at least one array")
        if sign is not None:
            return deliver([sign(lhs, rhs)], out)
        array, number = (lhs, rhs) if isinstance(lhs, NDArray) else (rhs, lhs)
        return operator_function(f"_{op}_scalar")(array, scalar=number, out=out)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"Return ``{op}`` of two arrays, or of an array and a number, element by element."
    return function


add = _of_pair("add", lambda a, b: a + b)
subtract = _of_pair("sub", lambda a, b: a - b)
multiply = _of_pair("mul", lambda a, b: a * b)
divide = true_divide = _of_pair("div", lambda a, b: a / b)
modulo = _of_pair("mod", lambda a, b: a % b)
power = pow = _of_pair("power", lambda a, b: a**b)  # noqa: A001 - MXNet's name
equal = _of_pair("equal", lambda a, b: a == b)
not_equal = _of_pair("not_equal", lambda a, b: a != b)
greater = _of_pair("greater", lambda a, b: a > b)
greater_equal = _of_pair("greater_equal", lambda a, b: a >= b)
lesser = _of_pair("lesser", lambda a, b: a < b)
lesser_equal = _of_pair("lesser_equal", lambda a, b: a <= b)
maximum = _of_pair("maximum")
minimum = _of_pair("minimum")
hypot = _of_pair("hypot")


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Return arrays one behind the other along an axis."""
    with scope():
        return NDArray(torch.cat([one.tensor for one in arrays], axis))


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot rows of indices into a matrix."""
    with torch.no_grad():
        out.tensor.zero_().scatter_(1, indices.tensor.long().reshape(-1, 1), 1)
    return out


def fill_element_0index(lhs: NDArray, mhs: NDArray, rhs: NDArray) -> NDArray:
    """Return a matrix with one element of each row replaced: by ``mhs``, at the column ``rhs``."""
    with scope():
        columns = rhs.tensor.long().reshape(-1, 1)
        return NDArray(lhs.tensor.scatter(1, columns, mhs.tensor.to(lhs.tensor).reshape(-1, 1)))


def norm(data: NDArray, ord: int = 2, axis: Any = None, keepdims: bool = False, out: Any = None) -> Any:  # noqa: A002 - MXNet's name
    """Return the norm of an array, or along axes."""
    with scope():
        axes = tuple(range(data.ndim)) if axis is None else axis
        length = torch.linalg.vector_norm(data.tensor, ord, axes, keepdims)
    return deliver([NDArray(length)], out)


def moveaxis(tensor: NDArray, source: Any, destination: Any) -> NDArray:
    """Return an array with axes moved to other places."""
    with scope():
        return NDArray(tensor.tensor.movedim(source, destination))


def softmax_cross_entropy(data: NDArray, label: NDArray) -> NDArray:
    """Return the sum over rows of minus the logarithm of the label's probability.

    MXNet (``loss_binary_op-inl.h``) takes no probability below 1e-8, but its gradient knows no such bound.
    """
    with scope():
        logs = data.tensor.log_softmax(1).gather(1, label.tensor.long().reshape(-1, 1))
        return NDArray(-bounded(logs, math.log(1e-8)).sum().reshape(1))


def shuffle(data: NDArray) -> NDArray:
    """Return the rows of an array in a random order."""
    with scope():
        return NDArray(data.tensor[torch.randperm(len(data))])


def waitall() -> None:
    """Wait until everything is computed."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def imdecode(str_img: bytes, clip_rect: Any = (0, 0, 0, 0), out: Any = None, **kwargs: Any) -> Any:
    """Return a decoded image: (height, width, channels) in RGB."""
    pixels = decode(str_img, "rgb", lambda: "imdecode")
    return deliver([NDArray(torch.from_numpy(np.ascontiguousarray(pixels)))], out)


def isnan(data: NDArray) -> NDArray:
    """Return 1 where an element is no number."""
    return NDArray(data.tensor.isnan().to(data.tensor.dtype))


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
