"""``chainer.functions.math``."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, wrap
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Variable

REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}
"""Functions over axes, all of them by default, and ONNX's name."""


def _pair(op_type: str, a: Any, b: Any) -> Variable:
    """Return an operator on two variables, or on a variable and a number, which takes its element type."""
    record = current()
    return node(op_type, [record.like(a, b), record.like(b, a)])


for _name, _op_type in {"sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}.items():
    function(_name, takes="a, b")(partial(_pair, _op_type))


@function()
def maximum(x1: Any, x2: Any) -> Variable:
    """The larger of two."""
    return _pair("Max", x1, x2)


@function()
def minimum(x1: Any, x2: Any) -> Variable:
    """The smaller of two."""
    return _pair("Min", x1, x2)


@function()
def add(*xs: Any) -> Variable:
    """A sum of two or more."""
    total = xs[0]
    for x in xs[1:]:
        total = _pair("Add", total, x)
    return total if isinstance(total, Variable) else wrap(current().as_value(total))


@function()
def linear_interpolate(p: Any, x: Any, y: Any) -> Variable:
    """P x + (1 - p) y."""
    return _pair("Add", _pair("Mul", p, x), _pair("Mul", _pair("Sub", 1.0, p), y))


@function()
def matmul(a: Any, b: Any, transa: bool = False, transb: bool = False) -> Variable:
    """A product of matrices."""
    return node("MatMul", [_transposed(a, transa), _transposed(b, transb)])


def _transposed(x: Any, is_transposed: bool) -> Any:
    if not is_transposed:
        return x
    *outer, rows, columns = range(x.ndim)
    return node("Transpose", [x], {"perm": [*outer, columns, rows]})


def _reduced(op_type: str, x: Any, axis: Any = None, keepdims: bool = False) -> Variable:
    axes = [axis] if isinstance(axis, int | np.integer) else axis
    inputs = [x] if axis is None else [x, integers(axes)]
    return node(op_type, inputs, {"keepdims": int(keepdims)})


for _name, _op_type in REDUCTIONS.items():
    function(_name, takes="x, axis=None, keepdims=False")(partial(_reduced, _op_type))

function("logsumexp", takes="x, axis=None")(partial(_reduced, "ReduceLogSumExp"))


@function("average", "mean")
def average(x: Any, axis: Any = None, weights: Any = None, keepdims: bool = False) -> Variable:
    """The mean along axes; all elements count alike."""
    if weights is not None:
        raise CodeError("average() with weights is not supported")
    return _reduced("ReduceMean", x, axis, keepdims)


def _along(x: Any, y: Any, axis: int) -> Any:
    """Return ``y`` with axes of size 1 behind, so that its first one lies on ``axis`` of ``x``."""
    behind = x.ndim - axis - y.ndim
    return y if behind <= 0 else node("Reshape", [y, integers([*y.shape, *[1] * behind])])


@function()
def scale(x: Any, y: Any, axis: int = 1) -> Variable:
    """Times an array along some axes."""
    return _pair("Mul", x, _along(x, y, axis))


@function()
def bias(x: Any, y: Any, axis: int = 1) -> Variable:
    """Plus an array along some axes."""
    return _pair("Add", x, _along(x, y, axis))


def _arg(op_type: str, x: Any, axis: int | None) -> Variable:
    return node(op_type, [x], {"axis": int(axis or 0), "keepdims": 0})


for _name, _op_type in {"argmax": "ArgMax", "argmin": "ArgMin"}.items():
    function(_name, takes="x, axis=None")(partial(_arg, _op_type))


@function()
def cumsum(x: Any, axis: int | None = None) -> Variable:
    """Sums along an axis, step by step."""
    if axis is None:
        raise CodeError("cumsum without an axis is not supported")
    return node("CumSum", [x, current().constant(int(axis), dtype=np.int64)])


def _logarithm(base: float, x: Any) -> Variable:
    return _pair("Div", node("Log", [x]), float(np.log(base)))


for _name, _base in (("log2", 2.0), ("log10", 10.0)):
    function(_name, takes="x")(partial(_logarithm, _base))


@function()
def squared_error(x0: Any, x1: Any) -> Variable:
    """The squares of the differences."""
    difference = _pair("Sub", x0, x1)
    return _pair("Mul", difference, difference)


@function()
def squared_difference(x1: Any, x2: Any) -> Variable:
    """The squares of the differences, under another name."""
    difference = _pair("Sub", x1, x2)
    return _pair("Mul", difference, difference)


@function()
def absolute_error(x0: Any, x1: Any) -> Variable:
    """The differences without their sign."""
    return node("Abs", [_pair("Sub", x0, x1)])


@function()
def batch_matmul(a: Any, b: Any, transa: bool = False, transb: bool = False) -> Variable:
    """A product of matrices for each example; vectors are columns."""
    columns = [node("Unsqueeze", [x, integers([2])]) if x.ndim == 2 else x for x in (a, b)]
    return node("MatMul", [_transposed(columns[0], transa), _transposed(columns[1], transb)])


@function()
def batch_l2_norm_squared(x: Any) -> Variable:
    """The sum of squares of each example."""
    rows = node("Flatten", [x], {"axis": 1})
    return node("ReduceSumSquare", [rows, integers([1])], {"keepdims": 0})
