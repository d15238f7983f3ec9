"""Elementwise operators as MXNet's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.elementwise import ONNX_NAMES
from netweave.formats.lowering.nodes.arrays import channel_slopes, clip_bounds, statistics_arrays
from netweave.formats.mxnet.symbol import Symbol
from netweave.formats.mxnet.symbol.operators.elementwise import ACTIVATIONS, BINARY, REDUCTIONS, UNARY, WORDS
from netweave.formats.mxnet.writer.table import MXNetNode, writes
from netweave.graph import DOMAIN

_ACTIVATIONS = {ONNX_NAMES[word]: word for word in ACTIVATIONS}
_UNARY = {
    ONNX_NAMES[word]: word for word in UNARY if word in ONNX_NAMES and ONNX_NAMES[word] not in _ACTIVATIONS
} | {"Dropout": "identity", "Identity": "identity"}
_BINARY = {op_type: word for word, op_type in BINARY.items()}
# What begins with an underscore is for sparse arrays alone.
_REDUCTIONS = {op_type: word for word, op_type in reversed(REDUCTIONS.items()) if not word.startswith("_")}


@writes(*_ACTIVATIONS)
def activation(node: MXNetNode) -> Symbol:
    """One of the words of Activation."""
    return node.make("Activation", node.symbol(0), act_type=_ACTIVATIONS[node.op_type])


@writes(*_UNARY)
def unary(node: MXNetNode) -> Symbol:
    """A function without settings."""
    return node.make(_UNARY[node.op_type], node.symbol(0))


_LEAKY = {"LeakyRelu": "leaky", "Elu": "elu"}


@writes(*_LEAKY)
def leaky(node: MXNetNode) -> Symbol:
    """A slope, or an exponential, below 0."""
    word = _LEAKY[node.op_type]
    return node.make("LeakyReLU", node.symbol(0), act_type=word, slope=node.get("alpha"))


@writes("PRelu")
def prelu(node: MXNetNode) -> Symbol:
    """A stored slope below 0, one or one for each channel."""
    channel_slopes(node)  # rejects others
    gamma = node.array("gamma", 1, lambda slope: slope.reshape(-1))
    return node.make("LeakyReLU", node.symbol(0), gamma, act_type="prelu")


@writes("Gelu")
def gelu(node: MXNetNode) -> Symbol:
    """By the error function."""
    if node.get("approximate") != "none":
        raise NotWritable("MXNet has no approximation of GELU")
    return node.make("LeakyReLU", node.symbol(0), act_type="gelu")


@writes("Clip")
def clip(node: MXNetNode) -> Symbol:
    """Bounds below and above."""
    low, high = clip_bounds(node)
    largest = float(np.finfo(np.float32).max)
    low, high = -largest if low is None else low, largest if high is None else high
    return node.make("clip", node.symbol(0), a_min=low, a_max=high)


@writes("HardSigmoid")
def hard_sigmoid(node: MXNetNode) -> Symbol:
    """A line between 0 and 1."""
    settings = {"alpha": node.get("alpha"), "beta": node.get("beta")}
    return node.make("hard_sigmoid", node.symbol(0), **settings)


@writes("HardSwish", "Swish", "Mish")
def gated(node: MXNetNode) -> Symbol:
    """The value times a function of it."""
    x, kind = node.symbol(0), node.op_type
    if node.get("alpha", 1.0) != 1.0:
        raise NotWritable("its factor is not 1")
    if kind == "HardSwish":
        gate = node.make("hard_sigmoid", x, alpha=1 / 6, beta=0.5)
    elif kind == "Swish":
        gate = node.make("sigmoid", x)
    else:
        gate = node.make("tanh", node.make("Activation", x, act_type="softrelu"))
    return node.make("elemwise_mul", x, gate)


@writes("Softmax", "LogSoftmax")
def softmax(node: MXNetNode) -> Symbol:
    """Over one axis."""
    op = "softmax" if node.op_type == "Softmax" else "log_softmax"
    return node.make(op, node.symbol(0), axis=node.axis())


@writes(*_BINARY)
def binary(node: MXNetNode) -> Symbol:
    """Two values, or a value and a number."""
    word = _BINARY[node.op_type]
    if node.num_inputs != 2:
        return _folded(node, word)
    for stored, other in ((1, 0), (0, 1)):
        if node.is_stored(stored) and node.constant(stored).size == 1 and not node.is_stored(other):
            return _with_number(node, word, stored, other)
    if node.shape(0) == node.shape(1) and word in {"add", "sub", "mul", "div"}:
        return node.make(f"elemwise_{word}", node.symbol(0), node.symbol(1))
    return _broadcast(node, word, node.symbol(0), node.symbol(1))


def _broadcast(node: MXNetNode, word: str, left: Symbol, right: Symbol) -> Symbol:
    """MXNet broadcasts values with as many axes; a stored one with fewer is given more."""
    rank = max(node.rank(0), node.rank(1))
    sides = [left, right]
    for index in range(2):
        if node.rank(index) != rank:
            if not node.is_stored(index):
                raise NotWritable("its values have another number of axes")
            array = node.constant(index)
            wide = array.reshape((1,) * (rank - array.ndim) + array.shape)
            sides[index] = node.constant_array(f"constant{index}", wide)
    return node.make(f"broadcast_{word}", *sides)


def _with_number(node: MXNetNode, word: str, stored: int, other: int) -> Symbol:
    sign = WORDS[word]
    swaps = stored == 0 and word in {"sub", "div", "power"}
    number = float(node.constant(stored).reshape(-1)[0])
    return node.make(f"_{'r' * swaps}{sign}_scalar", node.symbol(other), scalar=number)


def _folded(node: MXNetNode, word: str) -> Symbol:
    """Return a maximum or minimum of any number of values."""
    folded = node.symbol(0)
    for index in range(1, node.num_inputs):
        folded = node.make(f"broadcast_{word}", folded, node.symbol(index))
    return folded


@writes("Sum")
def several(node: MXNetNode) -> Symbol:
    """A sum of values of one size."""
    symbols = [node.symbol(index) for index in range(node.num_inputs)]
    if len({node.shape(index) for index in range(node.num_inputs)}) > 1:
        if len(symbols) == 2:
            return _broadcast(node, "add", *symbols)
        raise NotWritable("its values have other sizes")
    return node.make("add_n", *symbols)


@writes(*_REDUCTIONS, "ReduceL1", "ReduceL2", "ReduceSumSquare")
def reduction(node: MXNetNode) -> Symbol:
    """Over some axes, or all."""
    axes = node.ints(1) if node.has(1) else list(range(node.rank(0)))
    settings: dict[str, Any] = {"axis": tuple(axes), "keepdims": bool(node.get("keepdims"))}
    if node.op_type in _REDUCTIONS:
        return node.make(_REDUCTIONS[node.op_type], node.symbol(0), **settings)
    if node.op_type == "ReduceSumSquare":
        return node.make("sum", node.make("square", node.symbol(0)), **settings)
    return node.make("norm", node.symbol(0), ord=int(node.op_type[-1]), **settings)


_TYPES = {ir.DataType.FLOAT: "float32", ir.DataType.INT32: "int32", ir.DataType.INT64: "int64"}


@writes("Cast")
def cast(node: MXNetNode) -> Symbol:
    """Another element type."""
    kind = ir.DataType(node.get("to"))
    if kind not in _TYPES:
        raise NotWritable(f"a cast to {kind.name} is not written")
    return node.make("Cast", node.symbol(0), dtype=_TYPES[kind])


@writes("BatchNormalization")
def batch_normalization(node: MXNetNode) -> Symbol:
    """By stored statistics."""
    statistics_arrays(node)  # rejects the statistics of a batch
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    arrays += [node.array("moving_mean", 3, kind="aux"), node.array("moving_var", 4, kind="aux")]
    settings = {"eps": node.get("epsilon"), "momentum": node.get("momentum"), "fix_gamma": False}
    return node.make("BatchNorm", node.symbol(0), *arrays, **settings)


@writes("LRN")
def lrn(node: MXNetNode) -> Symbol:
    """Across channels."""
    settings = {
        "alpha": node.get("alpha"),
        "beta": node.get("beta"),
        "knorm": node.get("bias"),
    }
    return node.make("LRN", node.symbol(0), nsize=node.get("size"), **settings)


@writes("ChannelLRN", domain=DOMAIN)
def channel_lrn(node: MXNetNode) -> Symbol:
    """Over a square of places of the same channel (Caffe): a mean of squares, and arithmetic."""
    x, size = node.symbol(0), node.get("size")
    window = {"kernel": (size, size), "pad": (size // 2, size // 2)}
    mean = node.make("Pooling", node.make("square", x), pool_type="avg", **window)
    scaled = node.make("_mul_scalar", mean, scalar=node.get("alpha"))
    base = node.make("_plus_scalar", scaled, scalar=1.0)
    return node.make("elemwise_mul", x, node.make("_power_scalar", base, scalar=-node.get("beta")))


@writes("InstanceNormalization")
def instance_normalization(node: MXNetNode) -> Symbol:
    """By the statistics of each picture and channel."""
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    return node.make("InstanceNorm", node.symbol(0), *arrays, eps=node.get("epsilon"))


@writes("LayerNormalization")
def layer_normalization(node: MXNetNode) -> Symbol:
    """By the statistics of the last axis."""
    if node.axis() != node.rank(0) - 1 or not node.has(2):
        raise NotWritable("it is not over the last axis, with a scale and a shift")
    arrays = [node.array("gamma", 1), node.array("beta", 2)]
    return node.make("LayerNorm", node.symbol(0), *arrays, eps=node.get("epsilon"))
