"""Operators that say the same of every element."""

from __future__ import annotations

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.caffe.writer.layer import Blob, CaffeLayer
from netweave.formats.caffe.writer.table import Call, Step, power, written

_RELU: Step = ("ReLU", {})
_PROD = {"eltwise_param": {"operation": "PROD"}}

_STEPS: dict[str, tuple[Step, ...]] = {
    "Abs": (("AbsVal", {}),),
    "Exp": (("Exp", {}),),
    "Log": (("Log", {}),),
    "Neg": (power(scale=-1.0),),
    "Reciprocal": (power(exponent=-1.0),),
    "Relu": (_RELU,),
    "Sigmoid": (("Sigmoid", {}),),
    "Softplus": (("BNLL", {}),),
    "Sqrt": (power(exponent=0.5),),
    "Tanh": (("TanH", {}),),
}


@written(*_STEPS)
def plain(call: Call) -> list[CaffeLayer]:
    """A function without settings."""
    return call.chain(*_STEPS[call.node.op_type])


@written("Identity", "Dropout")
def identity(call: Call) -> list[CaffeLayer]:
    """What comes in, under another name."""
    return call.chain(("Split", {}))


@written("LeakyRelu")
def leaky_relu(call: Call) -> list[CaffeLayer]:
    """A slope below 0."""
    return call.chain(("ReLU", {"relu_param": {"negative_slope": call.get("alpha", 0.01)}}))


@written("Elu")
def elu(call: Call) -> list[CaffeLayer]:
    """An exponential below 0."""
    return call.chain(("ELU", {"elu_param": {"alpha": call.get("alpha", 1.0)}}))


@written("PRelu")
def prelu(call: Call) -> list[CaffeLayer]:
    """A stored slope below 0, one or one for each channel."""
    slope, sizes = call.lazily(1), [size for size in call.shape(1) if size != 1]
    count = sizes[0] if sizes else 1
    channels = call.shape(0)[1]
    if len(sizes) > 1 or count not in {1, channels}:
        raise Refused("its slopes are not one for each channel")
    is_shared = count == 1 and channels != 1
    blob = Blob(lambda: slope().reshape(() if is_shared else -1), call.value(1).name)
    settings = {"prelu_param": {"channel_shared": True}} if is_shared else {}
    return [call.layer("PReLU", [call.name(0)], settings, blobs=[blob])]


@written("Clip")
def clip(call: Call) -> list[CaffeLayer]:
    """Bounds below and above, by ReLU: neither BVLC's Caffe 1.0 nor OpenCV has a layer for them."""
    low, high = (float(call.constant(index).reshape(-1)[0]) if call.has(index) else None for index in (1, 2))
    return call.chain(*bounded(low, high))


def bounded(low: float | None, high: float | None) -> list[Step]:
    """Return a value between two bounds as steps: ``high - relu(high - low - relu(x - low))``."""
    infinite = np.float32(np.finfo(np.float32).max)
    low = None if low is not None and low <= -infinite else low
    high = None if high is not None and high >= infinite else high
    if low is None and high is None:
        return [("Split", {})]
    if low is None:
        assert high is not None
        return [power(scale=-1.0, shift=high), _RELU, power(scale=-1.0, shift=high)]
    above = [power(shift=-low), _RELU] if low else [_RELU]
    if high is None:
        return above + ([power(shift=low)] if low else [])
    return [*above, power(scale=-1.0, shift=high - low), _RELU, power(scale=-1.0, shift=high)]


def _hard_sigmoid(alpha: float, beta: float) -> list[Step]:
    return [power(scale=alpha, shift=beta), *bounded(0.0, 1.0)]


@written("HardSigmoid")
def hard_sigmoid(call: Call) -> list[CaffeLayer]:
    """A line between 0 and 1."""
    return call.chain(*_hard_sigmoid(call.get("alpha", 0.2), call.get("beta", 0.5)))


_GATES: dict[str, list[Step]] = {
    "HardSwish": _hard_sigmoid(1 / 6, 0.5),
    "Mish": [("BNLL", {}), ("TanH", {})],
    "Softsign": [("AbsVal", {}), power(shift=1.0, exponent=-1.0)],
    "Swish": [("Sigmoid", {})],
}
"""Functions that are the value times a function of it."""


@written(*_GATES)
def gated(call: Call) -> list[CaffeLayer]:
    """The value times a function of it."""
    if call.get("alpha", 1.0) != 1.0:
        raise Refused("its factor is not 1")
    gate = call.inner()
    layers = call.chain(*_GATES[call.node.op_type], top=gate)
    return [*layers, call.layer("Eltwise", [call.name(0), gate], _PROD)]


@written("Softmax")
def softmax(call: Call) -> list[CaffeLayer]:
    """Over one axis."""
    return call.chain(_softmax(call))


@written("LogSoftmax")
def log_softmax(call: Call) -> list[CaffeLayer]:
    """The logarithm of a softmax, in two layers."""
    return call.chain(_softmax(call), ("Log", {}))


def _softmax(call: Call) -> Step:
    axis = call.axis("axis", -1)
    return "Softmax", ({} if axis == 1 else {"softmax_param": {"axis": axis}})
