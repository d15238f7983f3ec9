"""Functions of ``keras.ops``: on symbolic tensors they add to a net, on arrays they compute with NumPy.

A loss that is written with them is one definition for training and for metrics. To add one: a row here, and
its rule in the reader of Keras' files if there is none yet (docs/how-to/add-a-keras-layer.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.objects import missing
from netweave.keras.operation import EPSILON, KerasTensor, call, tensors_in

NUMPY, NN, MATH, CORE = (f"keras.src.ops.{name}" for name in ("numpy", "nn", "math", "core"))

Function = Callable[..., Any]
Axis = int | Sequence[int] | None


def is_symbolic(*values: Any) -> bool:
    """Return whether there is a symbolic tensor among values."""
    return bool(tensors_in(values))


def _elementwise(class_name: str, numeric: Function, module: str = NUMPY) -> Function:
    def function(*values: Any) -> Any:
        if is_symbolic(*values):
            return call(class_name, *values, module=module)
        return numeric(*map(_array, values))

    function.__name__ = class_name.lower()
    function.__doc__ = f"Return what ``keras.ops`` calls {class_name}, of each element."
    return function


def _reduction(class_name: str, numeric: Function, module: str = NUMPY) -> Function:
    def function(x: Any, axis: Axis = None, keepdims: bool = False) -> Any:
        if is_symbolic(x):
            axes = [axis] if isinstance(axis, int) else axis if axis is None else list(axis)
            return call(class_name, x, module=module, axis=axes, keepdims=keepdims or None)
        axes_given = tuple(axis) if isinstance(axis, Sequence) else axis
        return numeric(_array(x), axis=axes_given, keepdims=keepdims)

    function.__name__ = class_name.lower()
    function.__doc__ = f"Return what ``keras.ops`` calls {class_name}, over some axes or all."
    return function


def _array(value: Any) -> Any:
    return value if np.isscalar(value) else np.asarray(value)


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, np.zeros_like(x))


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _log_sum_exp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    largest = np.max(x, axis=axis, keepdims=True)
    total = np.log(np.sum(np.exp(x - largest), axis=axis, keepdims=True)) + largest
    return total if keepdims else np.squeeze(total, axis=axis)


add = _elementwise("Add", np.add)
subtract = _elementwise("Subtract", np.subtract)
multiply = _elementwise("Multiply", np.multiply)
divide = _elementwise("Divide", np.divide)
power = _elementwise("Power", np.power)
maximum = _elementwise("Maximum", np.maximum)
minimum = _elementwise("Minimum", np.minimum)
equal = _elementwise("Equal", np.equal)
not_equal = _elementwise("NotEqual", np.not_equal)
greater = _elementwise("Greater", np.greater)
greater_equal = _elementwise("GreaterEqual", np.greater_equal)
less = _elementwise("Less", np.less)
less_equal = _elementwise("LessEqual", np.less_equal)
logical_and = _elementwise("LogicalAnd", np.logical_and)
logical_or = _elementwise("LogicalOr", np.logical_or)
logical_not = _elementwise("LogicalNot", np.logical_not)
where = _elementwise("Where", np.where)
absolute = abs = _elementwise("Absolute", np.abs)  # noqa: A001 - Keras' name
negative = _elementwise("Negative", np.negative)
square = _elementwise("Square", np.square)
sqrt = _elementwise("Sqrt", np.sqrt)
exp = _elementwise("Exp", np.exp)
expm1 = _elementwise("Expm1", np.expm1)
log = _elementwise("Log", np.log)
log1p = _elementwise("Log1p", np.log1p)
sign = _elementwise("Sign", np.sign)
sin = _elementwise("Sin", np.sin)
cos = _elementwise("Cos", np.cos)
tanh = _elementwise("Tanh", np.tanh)
floor = _elementwise("Floor", np.floor)
ceil = _elementwise("Ceil", np.ceil)
reciprocal = _elementwise("Reciprocal", np.reciprocal)
ones_like = _elementwise("OnesLike", np.ones_like)
zeros_like = _elementwise("ZerosLike", np.zeros_like)
sigmoid = _elementwise("Sigmoid", _sigmoid, NN)
softplus = _elementwise("Softplus", _softplus, NN)
matmul = _elementwise("Matmul", np.matmul)
rsqrt = _elementwise("Rsqrt", lambda x: 1.0 / np.sqrt(x), MATH)

sum = _reduction("Sum", np.sum)  # noqa: A001 - Keras' name, as those below
mean = _reduction("Mean", np.mean)
max = amax = _reduction("Max", np.max)  # noqa: A001
min = amin = _reduction("Min", np.min)  # noqa: A001
prod = _reduction("Prod", np.prod)
any = _reduction("Any", np.any)  # noqa: A001
all = _reduction("All", np.all)  # noqa: A001
logsumexp = _reduction("Logsumexp", _log_sum_exp, MATH)


def relu(x: Any) -> Any:
    """Return ``max(x, 0)``."""
    return maximum(x, 0.0)


def softmax(x: Any, axis: int = -1) -> Any:
    """Return exponentials that add up to 1 along an axis."""
    if is_symbolic(x):
        return call("Softmax", x, module=NN, axis=axis)
    raised = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return raised / np.sum(raised, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of a softmax."""
    if is_symbolic(x):
        return call("LogSoftmax", x, module=NN, axis=axis)
    return x - _log_sum_exp(np.asarray(x), axis=axis, keepdims=True)


def clip(x: Any, x_min: float, x_max: float) -> Any:
    """Return numbers bounded below and above."""
    if is_symbolic(x):
        return call("Clip", x, x_min=float(x_min), x_max=float(x_max))
    return np.clip(x, x_min, x_max)


def cast(x: Any, dtype: str) -> Any:
    """Return elements as another type."""
    if is_symbolic(x):
        return call("Cast", x, module=CORE, dtype=dtype)
    return np.asarray(x).astype(dtype)


def expand_dims(x: Any, axis: int) -> Any:
    """Return a tensor with an axis of size 1 more."""
    return call("ExpandDims", x, axis=axis) if is_symbolic(x) else np.expand_dims(x, axis)


def squeeze(x: Any, axis: int | None = None) -> Any:
    """Return a tensor without axes of size 1."""
    return call("Squeeze", x, axis=axis) if is_symbolic(x) else np.squeeze(x, axis)


def reshape(x: Any, newshape: Sequence[int]) -> Any:
    """Return a tensor with other sizes."""
    return call("Reshape", x, newshape=list(newshape)) if is_symbolic(x) else np.reshape(x, newshape)


def transpose(x: Any, axes: Sequence[int] | None = None) -> Any:
    """Return a tensor with its axes in another order; the other way round if none is given."""
    if is_symbolic(x):
        return call("Transpose", x, axes=None if axes is None else list(axes))
    return np.transpose(x, axes)


def concatenate(xs: Sequence[Any], axis: int = 0) -> Any:
    """Return tensors joined along an axis."""
    return call("Concatenate", list(xs), axis=axis) if is_symbolic(xs) else np.concatenate(xs, axis)


def stack(xs: Sequence[Any], axis: int = 0) -> Any:
    """Return tensors along a new axis."""
    return call("Stack", list(xs), axis=axis) if is_symbolic(xs) else np.stack(xs, axis)


def one_hot(x: Any, num_classes: int) -> Any:
    """Return a row of zeros with a one for each number."""
    if is_symbolic(x):
        return call("OneHot", x, module=NN, num_classes=num_classes, axis=-1, dtype="float32")
    numbers = np.asarray(x).astype(np.int64)
    return (numbers[..., None] == np.arange(num_classes)).astype(np.float32)


def argmax(x: Any, axis: int = -1) -> Any:
    """Return the number of the largest element along an axis."""
    return call("Argmax", x, axis=axis) if is_symbolic(x) else np.argmax(x, axis)


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return the cross entropy of each element with a label between 0 and 1."""
    if is_symbolic(target, output):
        return call("BinaryCrossentropy", target, output, module=NN, from_logits=from_logits)
    if from_logits:
        return np.maximum(output, 0) - output * target + _softplus(-np.abs(output))
    p = np.clip(output, EPSILON, np.float32(1.0 - EPSILON))
    return -(target * np.log(p) + (1 - target) * np.log(1 - p))


def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """Return the cross entropy with probabilities of classes along an axis."""
    if is_symbolic(target, output):
        settings = {"from_logits": from_logits, "axis": axis}
        return call("CategoricalCrossentropy", target, output, module=NN, **settings)
    if from_logits:
        return -np.sum(target * log_softmax(output, axis), axis)
    p = output / np.sum(output, axis=axis, keepdims=True)
    return -np.sum(target * np.log(np.clip(p, EPSILON, np.float32(1.0 - EPSILON))), axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross entropy with numbers of classes; classes are the last axis."""
    if is_symbolic(target, output):
        settings = {"from_logits": from_logits, "axis": axis}
        return call("SparseCategoricalCrossentropy", target, output, module=NN, **settings)
    if target.ndim == output.ndim:
        target = np.squeeze(target, -1)
    z = output if from_logits else np.log(np.clip(output, EPSILON, np.float32(1.0 - EPSILON)))
    numbers = target.astype(np.int64)[..., None]
    return -np.take_along_axis(log_softmax(z), numbers, -1)[..., 0]


def convert_to_numpy(x: Any) -> np.ndarray:
    """Return values as an array.

    Raises:
        UsageError: It is a symbolic tensor, which has no values.
    """
    if isinstance(x, KerasTensor):
        raise UsageError(f"{x!r} has no values; use predict of a model")
    return np.asarray(x)


def normalize(x: Any, axis: int = -1) -> Any:
    """Return vectors of length 1; one of length below 1e-12 is divided by that."""
    norms = sqrt(sum(square(x), axis=axis, keepdims=True))
    return x / maximum(norms, 1e-12)


def __getattr__(name: str) -> Any:
    raise missing("keras.ops", name, globals())
