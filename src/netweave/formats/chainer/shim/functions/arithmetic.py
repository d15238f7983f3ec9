"""``chainer.functions.math``."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, wrap
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Variable


def _pair(op_type: str, a: Any, b: Any) -> Variable:
    record = current()
    return wrap(record.add(op_type, [record.like(a, b), record.like(b, a)]))


@function()
def add(*xs: Any) -> Variable:
    """A sum of two or more."""
    total = xs[0]
    for x in xs[1:]:
        total = _pair("Add", total, x)
    return total if isinstance(total, Variable) else wrap(current().as_value(total))


@function()
def sub(a: Any, b: Any) -> Variable:
    """A difference."""
    return _pair("Sub", a, b)


@function()
def mul(a: Any, b: Any) -> Variable:
    """A product of elements."""
    return _pair("Mul", a, b)


@function()
def div(a: Any, b: Any) -> Variable:
    """A quotient."""
    return _pair("Div", a, b)


@function()
def pow(a: Any, b: Any) -> Variable:  # noqa: A001
    """A power."""
    return _pair("Pow", a, b)


@function()
def maximum(x1: Any, x2: Any) -> Variable:
    """The larger of two."""
    return _pair("Max", x1, x2)


@function()
def minimum(x1: Any, x2: Any) -> Variable:
    """The smaller of two."""
    return _pair("Min", x1, x2)


@function()
def square(x: Any) -> Variable:
    """The square."""
    return _pair("Mul", x, x)


@function()
def rsqrt(x: Any) -> Variable:
    """One over the root."""
    record = current()
    return wrap(record.add("Reciprocal", [record.add("Sqrt", [x])]))


@function()
def linear_interpolate(p: Any, x: Any, y: Any) -> Variable:
    """P x + (1 - p) y."""
    return _pair("Add", _pair("Mul", p, x), _pair("Mul", _pair("Sub", 1.0, p), y))


@function()
def matmul(a: Any, b: Any, transa: bool = False, transb: bool = False) -> Variable:
    """A product of matrices."""
    return wrap(current().add("MatMul", [_turned(a, transa), _turned(b, transb)]))


def _turned(x: Any, is_turned: bool) -> Any:
    if not is_turned:
        return x
    axes = list(range(x.ndim))
    return wrap(current().add("Transpose", [x], {"perm": [*axes[:-2], axes[-1], axes[-2]]}))


def _reduced(op_type: str, x: Any, axis: Any, keepdims: bool) -> Variable:
    record = current()
    inputs = [x]
    if axis is not None:
        axes = [axis] if isinstance(axis, int | np.integer) else list(axis)
        inputs.append(record.constant([int(each) for each in axes], dtype="int64"))
    return wrap(record.add(op_type, inputs, {"keepdims": int(keepdims)}))


def _reduction(name: str, op_type: str) -> None:
    def made(x: Any, axis: Any = None, keepdims: bool = False) -> Variable:
        return _reduced(op_type, x, axis, keepdims)

    function(name)(made)


@function("average", "mean")
def average(x: Any, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Variable:
    """The mean along axes; all elements count alike."""
    if weights is not None:
        raise CodeError("average with weights is not recorded")
    return _reduced("ReduceMean", x, axis, keepdims)


@function()
def logsumexp(x: Any, axis: Any = None) -> Variable:
    """The logarithm of the sum of exponentials along axes."""
    return _reduced("ReduceLogSumExp", x, axis, False)


for _name, _op_type in (
    ("sum", "ReduceSum"),
    ("max", "ReduceMax"),
    ("min", "ReduceMin"),
    ("prod", "ReduceProd"),
):
    _reduction(_name, _op_type)


def _along(x: Any, y: Any, axis: int) -> Any:
    """Return ``y`` with axes of size 1 behind, so that its first one lies on ``axis`` of ``x``."""
    behind = x.ndim - axis - y.ndim
    if behind <= 0:
        return y
    record = current()
    return wrap(record.add("Reshape", [y, record.constant([*y.shape, *[1] * behind], dtype="int64")]))


@function()
def scale(x: Any, y: Any, axis: int = 1) -> Variable:
    """Times an array along some axes."""
    return _pair("Mul", x, _along(x, y, axis))


@function()
def bias(x: Any, y: Any, axis: int = 1) -> Variable:
    """Plus an array along some axes."""
    return _pair("Add", x, _along(x, y, axis))


@function()
def argmax(x: Any, axis: int | None = None) -> Variable:
    """Where the largest is."""
    return wrap(current().add("ArgMax", [x], {"axis": int(axis or 0), "keepdims": 0}))


@function()
def argmin(x: Any, axis: int | None = None) -> Variable:
    """Where the smallest is."""
    return wrap(current().add("ArgMin", [x], {"axis": int(axis or 0), "keepdims": 0}))


@function()
def cumsum(x: Any, axis: int | None = None) -> Variable:
    """Sums along an axis, step by step."""
    if axis is None:
        raise CodeError("cumsum without an axis is not recorded")
    return wrap(current().add("CumSum", [x, current().constant(int(axis), dtype="int64")]))


@function()
def expm1(x: Any) -> Variable:
    """The exponential less 1."""
    return _pair("Sub", wrap(current().add("Exp", [x])), 1.0)


@function()
def log1p(x: Any) -> Variable:
    """The logarithm of 1 more."""
    return wrap(current().add("Log", [_pair("Add", x, 1.0)]))


def _logarithm(name: str, base: float) -> None:
    def made(x: Any) -> Variable:
        return _pair("Div", wrap(current().add("Log", [x])), float(np.log(base)))

    function(name)(made)


for _name, _base in (("log2", 2.0), ("log10", 10.0)):
    _logarithm(_name, _base)


@function()
def squared_error(x0: Any, x1: Any) -> Variable:
    """The squares of the differences."""
    difference = _pair("Sub", x0, x1)
    return _pair("Mul", difference, difference)


@function()
def squared_difference(x1: Any, x2: Any) -> Variable:
    """The squares of the differences."""
    difference = _pair("Sub", x1, x2)
    return _pair("Mul", difference, difference)


@function()
def absolute_error(x0: Any, x1: Any) -> Variable:
    """The differences without their sign."""
    return wrap(current().add("Abs", [_pair("Sub", x0, x1)]))


@function()
def batch_matmul(a: Any, b: Any, transa: bool = False, transb: bool = False) -> Variable:
    """A product of matrices for each example; vectors are columns."""
    record = current()
    columns = [
        wrap(record.add("Unsqueeze", [x, record.constant([2], dtype="int64")])) if x.ndim == 2 else x
        for x in (a, b)
    ]
    return wrap(record.add("MatMul", [_turned(columns[0], transa), _turned(columns[1], transb)]))


@function()
def batch_l2_norm_squared(x: Any) -> Variable:
    """The sum of squares of each example."""
    record = current()
    rows = record.add("Flatten", [x], {"axis": 1})
    return wrap(record.add("ReduceSumSquare", [rows, record.constant([1], dtype="int64")], {"keepdims": 0}))
