"""``chainer.functions.activation`` and ``noise``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, wrap
from netweave.formats.chainer.shim.recorder import current

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable

_PLAIN = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "erf": "Erf",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "floor": "Floor",
    "ceil": "Ceil",
    "sign": "Sign",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "arcsin": "Asin",
    "arccos": "Acos",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "neg": "Neg",
}


def _register(name: str, op_type: str) -> None:
    def made(x: Any) -> Variable:
        return wrap(current().add(op_type, [x]))

    function(name)(made)


for _name, _op_type in _PLAIN.items():
    _register(_name, _op_type)


@function()
def leaky_relu(x: Any, slope: float = 0.2) -> Variable:
    """A slope below 0; Chainer's default is 0.2."""
    return wrap(current().add("LeakyRelu", [x], {"alpha": float(slope)}))


@function()
def elu(x: Any, alpha: float = 1.0) -> Variable:
    """An exponential below 0."""
    return wrap(current().add("Elu", [x], {"alpha": float(alpha)}))


@function()
def selu(x: Any, alpha: float = 1.6732632423543772, scale: float = 1.0507009873554805) -> Variable:
    """An exponential below 0, scaled."""
    return wrap(current().add("Selu", [x], {"alpha": float(alpha), "gamma": float(scale)}))


@function()
def clipped_relu(x: Any, z: float = 20.0) -> Variable:
    """From 0 to ``z``."""
    record = current()
    return wrap(record.add("Clip", [x, record.constant(0.0), record.constant(z)]))


@function()
def relu6(x: Any) -> Variable:
    """From 0 to 6."""
    record = current()
    return wrap(record.add("Clip", [x, record.constant(0.0), record.constant(6.0)]))


@function()
def clip(x: Any, x_min: float, x_max: float) -> Variable:
    """Bounds below and above."""
    record = current()
    return wrap(record.add("Clip", [x, record.constant(x_min), record.constant(x_max)]))


@function()
def hard_sigmoid(x: Any) -> Variable:
    """0.2 x + 0.5 between 0 and 1."""
    return wrap(current().add("HardSigmoid", [x], {"alpha": 0.2, "beta": 0.5}))


@function()
def softplus(x: Any, beta: float = 1.0) -> Variable:
    """log(1 + exp(beta x)) / beta."""
    record = current()
    if beta == 1.0:
        return wrap(record.add("Softplus", [x]))
    inner = record.add("Softplus", [record.add("Mul", [x, record.constant(beta)])])
    return wrap(record.add("Div", [inner, record.constant(beta)]))


@function()
def swish(x: Any, beta: Any) -> Variable:
    """X times the logistic of beta x."""
    record = current()
    return wrap(record.add("Mul", [x, record.add("Sigmoid", [record.add("Mul", [x, beta])])]))


@function()
def prelu(x: Any, W: Any) -> Variable:
    """A stored slope below 0, for the axes after the batch."""
    record = current()
    rank, slope = x.ndim, W
    missing = rank - 1 - W.ndim
    value = record.as_value(slope)
    if missing > 0 and W.ndim:
        shape = record.constant([*W.shape, *[1] * missing], dtype="int64")
        value = record.add("Reshape", [value, shape])
    return wrap(record.add("PRelu", [x, value]))


@function()
def crelu(x: Any, axis: int = 1) -> Variable:
    """Both signs after one another."""
    record = current()
    return wrap(record.add("Relu", [record.add("Concat", [x, record.add("Neg", [x])], {"axis": int(axis)})]))


@function()
def maxout(x: Any, pool_size: int, axis: int = 1) -> Variable:
    """The largest of ``pool_size`` neighbours along an axis."""
    record = current()
    sizes = list(x.shape)
    axis = axis % len(sizes)
    shape = [0, *sizes[1:axis], sizes[axis] // pool_size, pool_size, *sizes[axis + 1 :]]
    cut = record.add("Reshape", [x, record.constant(shape, dtype="int64")])
    axes = record.constant([axis + 1], dtype="int64")
    return wrap(record.add("ReduceMax", [cut, axes], {"keepdims": 0}))


@function()
def softmax(x: Any, axis: int = 1) -> Variable:
    """Over one axis; Chainer's default is 1."""
    return wrap(current().add("Softmax", [x], {"axis": int(axis)}))


@function()
def log_softmax(x: Any, axis: int = 1) -> Variable:
    """Its logarithm."""
    return wrap(current().add("LogSoftmax", [x], {"axis": int(axis)}))


@function()
def absolute(self: Any) -> Variable:
    """The value without its sign."""
    return wrap(current().add("Abs", [self]))


@function()
def identity(*inputs: Any) -> Any:
    """What comes in, one or several."""
    made = tuple(wrap(current().add("Identity", [x])) for x in inputs)
    return made[0] if len(made) == 1 else made


@function()
def dropout(x: Any, ratio: float = 0.5, *, mask: Any = None, return_mask: bool = False) -> Any:
    """Passes on in a test; what it does in training is kept in the node."""
    if mask is not None:
        raise CodeError("dropout with a mask of its own is not recorded")
    record = current()
    made = wrap(record.add("Dropout", [x, record.constant(float(ratio))]))
    return (made, None) if return_mask else made
