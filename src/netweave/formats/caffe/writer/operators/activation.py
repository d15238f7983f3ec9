"""Operators that say the same of every element."""

from __future__ import annotations

from netweave.files.node_writer import NotWritable
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, Step, power, writes
from netweave.formats.lowering.nodes.arrays import channel_slopes, clip_bounds
from netweave.formats.lowering.nodes.names import by_operator

_RELU: Step = ("ReLU", {})
_PROD = {"eltwise_param": {"operation": "PROD"}}

_LAYERS = by_operator(("AbsVal", "BNLL", "Exp", "Log", "ReLU", "Sigmoid", "TanH"))

_STEPS: dict[str, Step] = {
    **{op_type: (kind, {}) for op_type, kind in _LAYERS.items()},
    "Dropout": ("Split", {}),
    "Identity": ("Split", {}),
    "Neg": power(scale=-1.0),
    "Reciprocal": power(exponent=-1.0),
    "Sqrt": power(exponent=0.5),
}


@writes(*_STEPS)
def plain(node: CaffeNode) -> list[CaffeLayer]:
    """A function without settings; what only comes in gets another name by a Split."""
    return node.chain(_STEPS[node.op_type])


_SLOPES = {"Elu": ("ELU", "elu_param", "alpha"), "LeakyRelu": ("ReLU", "relu_param", "negative_slope")}


@writes(*_SLOPES)
def sloped(node: CaffeNode) -> list[CaffeLayer]:
    """A slope, or an exponential, below 0."""
    kind, parameter, name = _SLOPES[node.op_type]
    return node.chain((kind, {parameter: {name: node.get("alpha")}}))


@writes("PRelu")
def prelu(node: CaffeNode) -> list[CaffeLayer]:
    """A stored slope below 0, one or one for each channel."""
    count, slopes = channel_slopes(node)
    is_shared = count == 1 and node.shape(0)[1] != 1
    blob = Blob(lambda: slopes().reshape(() if is_shared else -1), node.value(1).name)
    settings = {"prelu_param": {"channel_shared": True}} if is_shared else {}
    return [node.layer("PReLU", [node.name(0)], settings, blobs=[blob])]


@writes("Clip")
def clip(node: CaffeNode) -> list[CaffeLayer]:
    """Bounds below and above, by ReLU: neither BVLC's Caffe 1.0 nor OpenCV has a layer for them."""
    return node.chain(*bounded(*clip_bounds(node)))


def bounded(low: float | None, high: float | None) -> list[Step]:
    """Return a value between two bounds as steps: ``high - relu(high - low - relu(x - low))``."""
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


@writes("HardSigmoid")
def hard_sigmoid(node: CaffeNode) -> list[CaffeLayer]:
    """A line between 0 and 1."""
    return node.chain(*_hard_sigmoid(node.get("alpha"), node.get("beta")))


_GATES: dict[str, list[Step]] = {
    "HardSwish": _hard_sigmoid(1 / 6, 0.5),
    "Mish": [("BNLL", {}), ("TanH", {})],
    "Softsign": [("AbsVal", {}), power(shift=1.0, exponent=-1.0)],
    "Swish": [("Sigmoid", {})],
}
"""Functions that are the value times a function of it."""


@writes(*_GATES)
def gated(node: CaffeNode) -> list[CaffeLayer]:
    """The value times a function of it."""
    if node.get("alpha", 1.0) != 1.0:
        raise NotWritable("its factor is not 1")
    gate = node.inner()
    layers = node.chain(*_GATES[node.op_type], top=gate)
    return [*layers, node.layer("Eltwise", [node.name(0), gate], _PROD)]


@writes("Softmax")
def softmax(node: CaffeNode) -> list[CaffeLayer]:
    """Over one axis."""
    return node.chain(_softmax(node))


@writes("LogSoftmax")
def log_softmax(node: CaffeNode) -> list[CaffeLayer]:
    """The logarithm of a softmax, in two layers."""
    return node.chain(_softmax(node), ("Log", {}))


def _softmax(node: CaffeNode) -> Step:
    axis = node.axis()
    return "Softmax", ({} if axis == 1 else {"softmax_param": {"axis": axis}})
