"""Operators on each element, of two or more values, and over axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, written
from netweave.symbol.operators.activation import ACTIVATIONS
from netweave.symbol.operators.elementwise import BINARY, UNARY
from netweave.symbol.operators.reduction import REDUCTIONS

if TYPE_CHECKING:
    from netweave.symbol import Symbol

_ACTIVATIONS = {op_type: word for word, op_type in ACTIVATIONS.items()}
_UNARY = {op_type: word for word, op_type in UNARY.items() if op_type not in _ACTIVATIONS}
_BINARY = {op_type: word for word, op_type in BINARY.items()}
_REDUCTIONS = {op_type: word for word, op_type in reversed(REDUCTIONS.items())}
_SIGNS = {"add": "plus", "sub": "minus"}
"""What MXNet calls them with a number, where it is another word."""


@written(*_ACTIVATIONS)
def activation(call: Call) -> Symbol:
    """One of the words of Activation."""
    return call.make("Activation", call.symbol(0), act_type=_ACTIVATIONS[call.node.op_type])


@written(*_UNARY)
def unary(call: Call) -> Symbol:
    """A function without settings."""
    return call.make(_UNARY[call.node.op_type], call.symbol(0))


@written("Identity", "Dropout")
def identity(call: Call) -> Symbol:
    """What comes in."""
    return call.make("identity", call.symbol(0))


_LEAKY = {"LeakyRelu": ("leaky", 0.01), "Elu": ("elu", 1.0)}


@written(*_LEAKY)
def leaky(call: Call) -> Symbol:
    """A slope, or an exponential, below 0."""
    word, usual = _LEAKY[call.node.op_type]
    return call.make("LeakyReLU", call.symbol(0), act_type=word, slope=call.get("alpha", usual))


@written("PRelu")
def prelu(call: Call) -> Symbol:
    """A stored slope below 0, one or one for each channel."""
    sizes = [size for size in call.shape(1) if size != 1]
    if len(sizes) > 1 or (sizes and sizes[0] != call.shape(0)[1]):
        raise Refused("its slopes are not one for each channel")
    gamma = call.array("gamma", 1, lambda slope: slope.reshape(-1))
    return call.make("LeakyReLU", call.symbol(0), gamma, act_type="prelu")


@written("Gelu")
def gelu(call: Call) -> Symbol:
    """By the error function."""
    if call.get("approximate", "none") != "none":
        raise Refused("MXNet has no approximation of GELU")
    return call.make("LeakyReLU", call.symbol(0), act_type="gelu")


@written("Clip")
def clip(call: Call) -> Symbol:
    """Bounds below and above."""
    least = float(np.finfo(np.float32).min)
    low, high = (
        float(call.constant(index).reshape(-1)[0]) if call.has(index) else usual
        for index, usual in ((1, least), (2, -least))
    )
    return call.make("clip", call.symbol(0), a_min=low, a_max=high)


@written("HardSigmoid")
def hard_sigmoid(call: Call) -> Symbol:
    """A line between 0 and 1."""
    settings = {"alpha": call.get("alpha", 0.2), "beta": call.get("beta", 0.5)}
    return call.make("hard_sigmoid", call.symbol(0), **settings)


@written("HardSwish", "Swish", "Mish")
def gated(call: Call) -> Symbol:
    """The value times a function of it."""
    x, kind = call.symbol(0), call.node.op_type
    if call.get("alpha", 1.0) != 1.0:
        raise Refused("its factor is not 1")
    if kind == "HardSwish":
        gate = call.make("hard_sigmoid", x, alpha=1 / 6, beta=0.5)
    elif kind == "Swish":
        gate = call.make("sigmoid", x)
    else:
        gate = call.make("tanh", call.make("Activation", x, act_type="softrelu"))
    return call.make("elemwise_mul", x, gate)


@written("Softmax", "LogSoftmax")
def softmax(call: Call) -> Symbol:
    """Over one axis."""
    op = "softmax" if call.node.op_type == "Softmax" else "log_softmax"
    return call.make(op, call.symbol(0), axis=call.axis("axis", -1))


@written(*_BINARY)
def binary(call: Call) -> Symbol:
    """Two values, or a value and a number."""
    word = _BINARY[call.node.op_type]
    if call.num_inputs != 2:
        return _folded(call, word)
    for stored, other in ((1, 0), (0, 1)):
        if call.is_stored(stored) and call.constant(stored).size == 1 and not call.is_stored(other):
            return _with_number(call, word, stored, other)
    if call.shape(0) == call.shape(1) and word in {"add", "sub", "mul", "div"}:
        return call.make(f"elemwise_{word}", call.symbol(0), call.symbol(1))
    return _broadcast(call, word, call.symbol(0), call.symbol(1))


def _broadcast(call: Call, word: str, left: Symbol, right: Symbol) -> Symbol:
    """MXNet broadcasts values with as many axes; a stored one with fewer is given more."""
    rank = max(call.rank(0), call.rank(1))
    sides = [left, right]
    for index in range(2):
        if call.rank(index) != rank:
            if not call.is_stored(index):
                raise Refused("its values have another number of axes")
            array = call.constant(index)
            wide = array.reshape((1,) * (rank - array.ndim) + array.shape)
            sides[index] = call.constant_array(f"constant{index}", wide)
    return call.make(f"broadcast_{word}", *sides)


def _with_number(call: Call, word: str, stored: int, other: int) -> Symbol:
    sign = _SIGNS.get(word, word)
    swaps = stored == 0 and word in {"sub", "div", "power"}
    number = float(call.constant(stored).reshape(-1)[0])
    return call.make(f"_{'r' * swaps}{sign}_scalar", call.symbol(other), scalar=number)


def _folded(call: Call, word: str) -> Symbol:
    """Return a maximum or minimum of any number of values."""
    found = call.symbol(0)
    for index in range(1, call.num_inputs):
        found = call.make(f"broadcast_{word}", found, call.symbol(index))
    return found


@written("Sum")
def several(call: Call) -> Symbol:
    """A sum of values of one size."""
    symbols = [call.symbol(index) for index in range(call.num_inputs)]
    if len({call.shape(index) for index in range(call.num_inputs)}) > 1:
        if len(symbols) == 2:
            return _broadcast(call, "add", *symbols)
        raise Refused("its values have other sizes")
    return call.make("add_n", *symbols)


@written(*_REDUCTIONS, "ReduceL1", "ReduceL2", "ReduceSumSquare")
def reduction(call: Call) -> Symbol:
    """Over some axes, or all."""
    axes = call.wholes(1) if call.has(1) else list(range(call.rank(0)))
    settings: dict[str, Any] = {"axis": tuple(axes), "keepdims": bool(call.get("keepdims", 1))}
    if call.node.op_type in _REDUCTIONS:
        return call.make(_REDUCTIONS[call.node.op_type], call.symbol(0), **settings)
    if call.node.op_type == "ReduceSumSquare":
        return call.make("sum", call.make("square", call.symbol(0)), **settings)
    return call.make("norm", call.symbol(0), ord=int(call.node.op_type[-1]), **settings)


_TYPES = {ir.DataType.FLOAT: "float32", ir.DataType.INT32: "int32", ir.DataType.INT64: "int64"}


@written("Cast")
def cast(call: Call) -> Symbol:
    """Another element type."""
    kind = ir.DataType(call.get("to"))
    if kind not in _TYPES:
        raise Refused(f"a cast to {kind.name} is not written")
    return call.make("Cast", call.symbol(0), dtype=_TYPES[kind])
