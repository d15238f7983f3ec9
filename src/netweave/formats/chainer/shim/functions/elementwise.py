"""Elementwise functions and losses of Chainer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, wrap
from netweave.formats.chainer.shim.recorder import Variable, current
from netweave.formats.lowering import elementwise
from netweave.graph import DOMAIN

LIKE_EVERYWHERE = (
    "arccos", "arcsin", "arctan", "arctanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "log",
    "log1p", "neg", "relu", "relu6", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh",
)  # fmt: skip
"""Functions of each element that are what other frameworks call so too, and take ``x`` alone."""


def _elementwise(compute: Callable[..., ir.Value], x: Any, **settings: Any) -> Variable:
    return wrap(compute(current(), current().as_value(x), **settings))


for _name_activation in LIKE_EVERYWHERE:
    function(_name_activation, takes="x")(partial(_elementwise, elementwise.FUNCTIONS[_name_activation]))

function("absolute", takes="self")(lambda self: _elementwise(elementwise.FUNCTIONS["abs"], self))


@function()
def leaky_relu(x: Any, slope: float = 0.2) -> Variable:
    """A slope below 0; Chainer's default is 0.2."""
    return node("LeakyRelu", [x], {"alpha": float(slope)})


@function()
def elu(x: Any, alpha: float = 1.0) -> Variable:
    """An exponential below 0."""
    return node("Elu", [x], {"alpha": float(alpha)})


@function()
def selu(x: Any, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805) -> Variable:
    """An exponential below 0, scaled."""
    return node("Selu", [x], {"alpha": float(alpha), "gamma": float(scale)})


@function()
def clipped_relu(x: Any, z: float = 20.0) -> Variable:
    """From 0 to ``z``."""
    return _elementwise(elementwise.rectify, x, limit=z)


@function()
def clip(x: Any, x_min: float, x_max: float) -> Variable:
    """Bounds below and above."""
    return _elementwise(elementwise.clip, x, low=x_min, high=x_max)


@function()
def hard_sigmoid(x: Any) -> Variable:
    """0.2 x + 0.5 between 0 and 1."""
    return _elementwise(elementwise.hard_sigmoid, x, slope=0.2)


@function()
def softplus(x: Any, beta: float = 1.0) -> Variable:
    """log(1 + exp(beta x)) / beta."""
    return _elementwise(elementwise.softplus, x, beta=beta)


@function()
def swish(x: Any, beta: Any) -> Variable:
    """X times the logistic of beta x."""
    return _elementwise(elementwise.swish, x, beta=current().as_value(beta))


@function()
def prelu(x: Any, W: Any) -> Variable:
    """A stored slope below 0, for the axes after the batch."""
    missing = x.ndim - 1 - W.ndim
    slope = node("Reshape", [W, integers([*W.shape, *[1] * missing])]) if missing > 0 and W.ndim else W
    return node("PRelu", [x, slope])


@function()
def crelu(x: Any, axis: int = 1) -> Variable:
    """Both signs after one another."""
    return node("Relu", [node("Concat", [x, node("Neg", [x])], {"axis": int(axis)})])


@function()
def maxout(x: Any, pool_size: int, axis: int = 1) -> Variable:
    """The largest of ``pool_size`` neighbours along an axis."""
    sizes, axis = list(x.shape), axis % x.ndim
    split = [0, *sizes[1:axis], sizes[axis] // pool_size, pool_size, *sizes[axis + 1 :]]
    blocks = node("Reshape", [x, integers(split)])
    return node("ReduceMax", [blocks, integers([axis + 1])], {"keepdims": 0})


@function()
def softmax(x: Any, axis: int = 1) -> Variable:
    """Over one axis; Chainer's default is 1."""
    return node("Softmax", [x], {"axis": int(axis)})


@function()
def log_softmax(x: Any, axis: int = 1) -> Variable:
    """Its logarithm."""
    return node("LogSoftmax", [x], {"axis": int(axis)})


@function()
def identity(*inputs: Any) -> Any:
    """Return the inputs, one or several."""
    copies = tuple(node("Identity", [x]) for x in inputs)
    return copies[0] if len(copies) == 1 else copies


@function()
def dropout(x: Any, ratio: float = 0.5, *, mask: Any = None, return_mask: bool = False) -> Any:
    """Passes on in a test; what it does in training is kept in the node."""
    if mask is not None:
        raise CodeError("dropout with a given mask is not supported")
    kept = node("Dropout", [x, current().constant(float(ratio))])
    return (kept, None) if return_mask else kept


REDUCTIONS = {"sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd"}
"""Functions over axes, all of them by default, and ONNX's name."""


def _pair(op_type: str, a: Any, b: Any) -> Variable:
    """Return an operator on two variables, or on a variable and a number, which takes its element type."""
    record = current()
    return node(op_type, [record.like(a, b), record.like(b, a)])


for _name_arithmetic, _op_type in {"sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow"}.items():
    function(_name_arithmetic, takes="a, b")(partial(_pair, _op_type))


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


for _name_arithmetic, _op_type in REDUCTIONS.items():
    function(_name_arithmetic, takes="x, axis=None, keepdims=False")(partial(_reduced, _op_type))

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


for _name_arithmetic, _op_type in {"argmax": "ArgMax", "argmin": "ArgMin"}.items():
    function(_name_arithmetic, takes="x, axis=None")(partial(_arg, _op_type))


@function()
def cumsum(x: Any, axis: int | None = None) -> Variable:
    """Sums along an axis, step by step."""
    if axis is None:
        raise CodeError("cumsum without an axis is not supported")
    return node("CumSum", [x, current().constant(int(axis), dtype=np.int64)])


def _logarithm(base: float, x: Any) -> Variable:
    return _pair("Div", node("Log", [x]), float(np.log(base)))


for _name_arithmetic, _base in (("log2", 2.0), ("log10", 10.0)):
    function(_name_arithmetic, takes="x")(partial(_logarithm, _base))


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


@function(
    takes="x, t, normalize=True, cache_score=True, class_weight=None, ignore_label=-1, reduce='mean', "
    "enable_double_backprop=False, soft_target_loss='cross-entropy'"
)
def softmax_cross_entropy(
    x: Any, t: Any, normalize: bool, class_weight: Any, ignore_label: int, reduce: str
) -> Variable:
    """The mean over the labels that are not ignored; the losses themselves with ``reduce='no'``."""
    if class_weight is not None:
        raise CodeError("softmax_cross_entropy with class_weight is not supported")
    if reduce == "no":
        return _each_cross_entropy(x, t, int(ignore_label))
    attributes = {
        "axis": 1,
        "ignore_label": int(ignore_label),
        "normalization": "VALID" if normalize else "BATCH_SIZE",
    }
    outputs = current().add_many("SoftmaxWithLoss", [x, t], attributes, domain=DOMAIN, outputs=2)
    current().judge(outputs[0])
    return wrap(outputs[0])


def _each_cross_entropy(x: Any, t: Any, ignore_label: int) -> Variable:
    """The loss of each label, 0 where it is ignored."""
    record = current()
    labels = record.add("Cast", [t], {"to": int(ir.DataType.INT64)})
    zero, ignored = (np.array(number, np.int64) for number in (0, ignore_label))
    places = record.add("Unsqueeze", [record.add("Max", [labels, zero]), np.array([1], np.int64)])
    picked = record.add("GatherElements", [record.add("LogSoftmax", [x], {"axis": 1}), places], {"axis": 1})
    losses = record.add("Neg", [record.add("Squeeze", [picked, np.array([1], np.int64)])])
    counts = record.add("Not", [record.add("Equal", [labels, ignored])])
    return node("Mul", [losses, record.add("Cast", [counts], {"to": int(ir.DataType.FLOAT)})])


@function()
def accuracy(y: Any, t: Any, ignore_label: int | None = None) -> Variable:
    """The share of labels that are the best guess."""
    attributes: dict[str, Any] = {"axis": 1, "top_k": 1, "ties": "lowest"}
    if ignore_label is not None:
        attributes["ignore_label"] = int(ignore_label)
    return node("Accuracy", [y, t], attributes, domain=DOMAIN)


@function()
def mean_absolute_error(x0: Any, x1: Any) -> Variable:
    """The mean of the differences without their signs."""
    record = current()
    difference = record.add("Abs", [record.add("Sub", [x0, x1])])
    return node("ReduceMean", [difference], {"keepdims": 0})


@function()
def mean_squared_error(x0: Any, x1: Any) -> Variable:
    """The mean of the squared differences."""
    record = current()
    difference = record.add("Sub", [x0, x1])
    return node("ReduceMean", [record.add("Mul", [difference, difference])], {"keepdims": 0})
