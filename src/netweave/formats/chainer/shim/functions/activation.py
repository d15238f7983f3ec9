"""``chainer.functions.activation`` and ``noise``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, wrap
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.lowering import activations

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from netweave.formats.chainer.shim.variable import Variable

LIKE_EVERYWHERE = (
    "arccos", "arcsin", "arctan", "arctanh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "log",
    "log1p", "neg", "relu", "relu6", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "tan",
    "tanh",
)  # fmt: skip
"""Functions of each element that are what other frameworks call so too, and take ``x`` alone."""


def _elementwise(compute: Callable[..., ir.Value], x: Any, **settings: Any) -> Variable:
    return wrap(compute(current(), current().as_value(x), **settings))


for _name in LIKE_EVERYWHERE:
    function(_name, takes="x")(partial(_elementwise, activations.FUNCTIONS[_name]))

function("absolute", takes="self")(lambda self: _elementwise(activations.FUNCTIONS["abs"], self))


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
    return _elementwise(activations.rectify, x, limit=z)


@function()
def clip(x: Any, x_min: float, x_max: float) -> Variable:
    """Bounds below and above."""
    return _elementwise(activations.clip, x, low=x_min, high=x_max)


@function()
def hard_sigmoid(x: Any) -> Variable:
    """0.2 x + 0.5 between 0 and 1."""
    return _elementwise(activations.hard_sigmoid, x, slope=0.2)


@function()
def softplus(x: Any, beta: float = 1.0) -> Variable:
    """log(1 + exp(beta x)) / beta."""
    return _elementwise(activations.softplus, x, beta=beta)


@function()
def swish(x: Any, beta: Any) -> Variable:
    """X times the logistic of beta x."""
    return _elementwise(activations.swish, x, beta=current().as_value(beta))


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
