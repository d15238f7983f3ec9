"""Elementwise operators and normalisation as Caffe's layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import NotWritable, producer_of
from netweave.formats.caffe.writer.table import Blob, CaffeLayer, CaffeNode, Step, power, writes
from netweave.formats.lowering.nodes.arrays import by_operator, channel_slopes, clip_bounds
from netweave.graph import DOMAIN

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


@writes("BatchNormalization")
def batch_normalization(node: CaffeNode) -> list[CaffeLayer]:
    """By stored statistics, in the two layers that Caffe has for it; Scale only where it does something."""
    if node.get("training_mode"):
        raise NotWritable("it uses the statistics of the batch")
    gamma, beta = node.lazy_array(1), node.lazy_array(2)
    settings: dict[str, Any] = {"use_global_stats": True}
    if (epsilon := node.get("epsilon")) != 1e-5:  # Caffe's default
        settings["eps"] = epsilon
    count = Blob(lambda: np.ones(1, np.float32))
    is_plain = bool(np.all(gamma() == 1)) and not np.any(beta())
    normal = node.output if is_plain else node.inner()
    blobs = [node.blob(3), node.blob(4), count]
    norm = node.layer("BatchNorm", [node.name(0)], {"batch_norm_param": settings}, top=normal, blobs=blobs)
    if is_plain:
        return [norm]
    scale = {"scale_param": {"bias_term": True}}
    return [norm, node.layer("Scale", [normal], scale, blobs=[node.blob(1), node.blob(2)])]


@writes("LRN")
def lrn(node: CaffeNode) -> list[CaffeLayer]:
    """Across channels; a constant other than 1 becomes a factor behind, since OpenCV does not read ``k``."""
    if node.get("size") % 2 == 0:
        raise NotWritable("its window has an even size, and Caffe's are odd")
    alpha, beta, k = (node.get(name, usual) for name, usual in _LRN.items())
    step = ("LRN", {"lrn_param": {"local_size": node.get("size"), "alpha": alpha / k, "beta": beta}})
    return node.chain(step) if k == 1 else node.chain(step, power(scale=k**-beta))


_LRN = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}


@writes("ChannelLRN", domain=DOMAIN)
def channel_lrn(node: CaffeNode) -> list[CaffeLayer]:
    """Over a square of places of the same channel."""
    settings = {"local_size": node.get("size"), "alpha": node.get("alpha"), "beta": node.get("beta")}
    return node.chain(("LRN", {"lrn_param": {**settings, "norm_region": "WITHIN_CHANNEL"}}))


def epsilon_of_norm(division: ir.Node) -> float | None:
    """Return what is added to the sum of squares if a value is divided by its norm over channels."""
    x, norm = division.inputs
    maker = producer_of(norm)
    if maker is not None and maker.op_type == "ReduceL2":
        return 0.0 if maker.inputs[0] is x and _is_over_channels(maker) else None
    if maker is None or maker.op_type != "Sqrt":
        return None
    squares, eps = producer_of(maker.inputs[0]), 0.0
    if squares is not None and squares.op_type == "Add":
        values = list(squares.inputs)
        numbers = [value for value in values if value is not None and value.const_value is not None]
        if len(numbers) != 1 or numbers[0].const_value is None or numbers[0].const_value.size != 1:
            return None
        eps = float(numbers[0].const_value.numpy().reshape(-1)[0])
        squares = producer_of(next(value for value in values if value is not numbers[0]))
    return eps if squares is not None and _is_square_of(squares, x) else None


def _is_square_of(node: ir.Node, x: ir.Value | None) -> bool:
    """Return whether a node gives the sum of a value's squares over channels."""
    if node.op_type == "ReduceSumSquare":
        return node.inputs[0] is x and _is_over_channels(node)
    square = producer_of(node.inputs[0]) if node.op_type == "ReduceSum" and _is_over_channels(node) else None
    return square is not None and square.op_type == "Mul" and all(value is x for value in square.inputs)


def _is_over_channels(node: ir.Node) -> bool:
    axes = node.inputs[1].const_value if len(node.inputs) > 1 and node.inputs[1] is not None else None
    return axes is not None and axes.numpy().tolist() == [1] and node.attributes.get_int("keepdims", 1) == 1


def normalized(node: CaffeNode, eps: float) -> list[CaffeLayer]:
    """Return the layer; its factors are ones, since Caffe has always some."""
    channels = node.shape(0)[1]
    if channels is None or node.rank(0) != 4:
        raise NotWritable("Caffe normalises images with a known number of channels")
    settings = {"across_spatial": False, "channel_shared": False, "eps": eps}
    ones = Blob(lambda: np.ones(channels, np.float32))
    return [node.layer("Normalize", [node.name(0)], {"norm_param": settings}, blobs=[ones])]


_COEFFICIENTS: dict[str, list[float]] = {"Add": [], "Sub": [1.0, -1.0]}


@writes("Add", "Sub")
def add(node: CaffeNode) -> list[CaffeLayer]:
    """A sum or difference."""
    sign = -1.0 if node.op_type == "Sub" else 1.0
    if node.is_stored(1):
        return _plus(node, 0, node.constant(1) * np.float32(sign), 1.0)
    if node.is_stored(0):
        return _plus(node, 1, node.constant(0), sign)
    if _are_alike(node, 0, 1):
        coefficients = _COEFFICIENTS[node.op_type]
        settings = {"eltwise_param": {"coeff": coefficients}} if coefficients else {}
        return [node.layer("Eltwise", [node.name(0), node.name(1)], settings)]
    if sign < 0:
        raise NotWritable("its values have other sizes; Caffe broadcasts sums and products only")
    return _broadcast(node, "Bias", "bias_param")


@writes("Mul")
def mul(node: CaffeNode) -> list[CaffeLayer]:
    """A product."""
    for stored, value in ((1, 0), (0, 1)):
        if node.is_stored(stored):
            return _times(node, value, node.constant(stored))
    if _are_alike(node, 0, 1):
        return [node.layer("Eltwise", [node.name(0), node.name(1)], {"eltwise_param": {"operation": "PROD"}})]
    return _broadcast(node, "Scale", "scale_param")


@writes("Div")
def div(node: CaffeNode) -> list[CaffeLayer]:
    """A quotient: a product with what is one over the second value."""
    if node.is_stored(1):
        return _times(node, 0, 1 / node.constant(1))
    if (eps := epsilon_of_norm(node.ir_node)) is not None:
        return normalized(node, eps)
    inverse = node.inner()
    layers = node.chain(power(exponent=-1.0), bottom=node.name(1), top=inverse)
    if node.is_stored(0):
        return [*layers, *_times(node, 0, node.constant(0), bottom=inverse, rank=node.rank(1))]
    if not _are_alike(node, 0, 1):
        raise NotWritable("its values have other sizes; Caffe broadcasts sums and products only")
    product = {"eltwise_param": {"operation": "PROD"}}
    return [*layers, node.layer("Eltwise", [node.name(0), inverse], product)]


@writes("Pow")
def pow_(node: CaffeNode) -> list[CaffeLayer]:
    """A power with a stored number as its exponent."""
    exponent = node.constant(1)
    if exponent.size != 1:
        raise NotWritable("its exponents are not one number")
    return node.chain(power(exponent=float(exponent.reshape(-1)[0])))


@writes("Sum", "Max", "Min")
def several(node: CaffeNode) -> list[CaffeLayer]:
    """A sum, maximum or minimum of several values, or of one and a number."""
    kind, indices = node.op_type, list(range(node.num_inputs))
    stored = [index for index in indices if node.is_stored(index)]
    if stored:
        return _with_number(node, kind, stored, indices)
    if not all(_are_alike(node, 0, index) for index in indices[1:]):
        raise NotWritable("its values have other sizes; Caffe's Eltwise does not broadcast")
    names = [node.name(index) for index in indices]
    if len(names) == 1:
        return node.chain(("Split", {}))
    if kind == "Sum":
        return [node.layer("Eltwise", names)]
    settings = {"eltwise_param": {"operation": "MAX"}}
    if kind == "Max":
        return [node.layer("Eltwise", names, settings)]
    negated, layers = [node.inner() for _ in names], []
    for name, negative in zip(names, negated, strict=True):
        layers += node.chain(power(scale=-1.0), bottom=name, top=negative)
    lowest = node.inner()
    layers.append(node.layer("Eltwise", negated, settings, top=lowest))
    return [*layers, *node.chain(power(scale=-1.0), bottom=lowest)]


def _with_number(
    node: CaffeNode, kind: str, stored: Sequence[int], indices: Sequence[int]
) -> list[CaffeLayer]:
    values = [index for index in indices if index not in stored]
    if len(stored) != 1 or len(values) != 1:
        raise NotWritable("one of its inputs is stored")
    number = node.constant(stored[0])
    if kind == "Sum":
        return _plus(node, values[0], number, 1.0)
    if number.size != 1:
        raise NotWritable("its stored input is not one number")
    bound = float(number.reshape(-1)[0])
    steps = bounded(bound, None) if kind == "Max" else bounded(None, bound)
    return node.chain(*steps, bottom=node.name(values[0]))


def _are_alike(node: CaffeNode, first: int, second: int) -> bool:
    return node.shape(first) == node.shape(second)


def _plus(node: CaffeNode, index: int, shift: np.ndarray, factor: float) -> list[CaffeLayer]:
    """Write ``factor * value + shift``."""
    if shift.size == 1:
        return node.chain(power(scale=factor, shift=float(shift.reshape(-1)[0])), bottom=node.name(index))
    axes, array = _placed(shift, node.shape(index))
    if factor == 1:
        return [node.layer("Bias", [node.name(index)], {"bias_param": axes}, blobs=[Blob(lambda: array)])]
    blobs = [Blob(lambda: np.full_like(array, factor)), Blob(lambda: array)]
    settings = {"scale_param": {**axes, "bias_term": True}}
    return [node.layer("Scale", [node.name(index)], settings, blobs=blobs)]


def _times(
    node: CaffeNode, index: int, factor: np.ndarray, *, bottom: str | None = None, rank: int | None = None
) -> list[CaffeLayer]:
    name = node.name(index) if bottom is None else bottom
    if factor.size == 1:
        return node.chain(power(scale=float(factor.reshape(-1)[0])), bottom=name)
    shape = node.shape(index if rank is None else 1)
    axes, array = _placed(factor, shape)
    return [node.layer("Scale", [name], {"scale_param": axes}, blobs=[Blob(lambda: array)])]


def _placed(array: np.ndarray, shape: Sequence[int | None]) -> tuple[dict[str, Any], np.ndarray]:
    """Return the settings ``axis`` and ``num_axes`` of a stored operand, and its array without other axes."""
    if array.ndim > len(shape):
        raise NotWritable("its stored array has more axes than its value")
    sizes = (1,) * (len(shape) - array.ndim) + array.shape
    wide = [axis for axis, size in enumerate(sizes) if size != 1]
    first, last = wide[0], wide[-1]
    if sizes[first : last + 1] != tuple(shape[first : last + 1]):
        raise NotWritable("its stored array has other sizes than its value")
    axes = {"axis": first} if first != 1 else {}
    axes |= {"num_axes": last + 1 - first} if last != first else {}
    return axes, np.ascontiguousarray(array.reshape(sizes[first : last + 1]), np.float32)


def _broadcast(node: CaffeNode, kind: str, parameter: str) -> list[CaffeLayer]:
    """Write a value with one number for each channel of another: its axes of 1 are dropped first."""
    shapes = node.shape(0), node.shape(1)
    large, small = (0, 1) if shapes[1][2:] == (1,) * (len(shapes[1]) - 2) else (1, 0)
    rank = len(shapes[large])
    if rank < 3 or shapes[small] != (*shapes[large][:2], *[1] * (rank - 2)):
        raise NotWritable(
            f"its values have the sizes {shapes[0]} and {shapes[1]}; Caffe broadcasts channels only"
        )
    flat = node.inner()
    return [
        *node.chain(("Flatten", {}), bottom=node.name(small), top=flat),
        node.layer(kind, [node.name(large), flat], {parameter: {"axis": 0}}),
    ]


_REDUCTIONS = {"ReduceMean": "MEAN", "ReduceSum": "SUM", "ReduceL1": "ASUM", "ReduceSumSquare": "SUMSQ"}
_GLOBAL = {"ReduceMean": "AVE", "ReduceMax": "MAX"}


@writes(*_REDUCTIONS, "ReduceMax")
def reduction(node: CaffeNode) -> list[CaffeLayer]:
    """Over height and width as a pooling; over all axes from one on as a Reduction."""
    rank, kind = node.rank(0), node.op_type
    given = node.ints(1) if node.has(1) else list(range(rank))
    axes, keeps = sorted(axis % rank for axis in given), node.get("keepdims")
    if rank == 4 and axes == [2, 3] and kind in _GLOBAL:
        pooling = ("Pooling", {"pooling_param": {"pool": _GLOBAL[kind], "global_pooling": True}})
        return node.chain(pooling) if keeps else node.chain(pooling, ("Flatten", {}))
    if axes != list(range(axes[0], rank)) or kind not in _REDUCTIONS or (keeps and axes[0] == 0):
        raise NotWritable(f"Caffe reduces all axes from one on, found {axes} of {rank}")
    operation: dict[str, Any] = {} if kind == "ReduceSum" else {"operation": _REDUCTIONS[kind]}
    operation |= {"axis": axes[0]} if axes[0] else {}
    step = ("Reduction", {"reduction_param": operation})
    if not keeps:
        return node.chain(step)
    dims = [0] * axes[0] + [1] * len(axes)
    return node.chain(step, ("Reshape", {"reshape_param": {"shape": {"dim": dims}}}))
