"""Layers of Darknet that convolve, pool or activate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.lowering.elementwise import FUNCTIONS, batch_normalization, gelu, rectify
from netweave.formats.lowering.windows import Window
from netweave.graph import Statistics


@layer("maxpool", "max")
def maxpool(ctx: DarknetLayer) -> ir.Value:
    """The largest of each window; ``padding`` (by default size - 1) is the sum of both ends.

    The first window begins ``padding / 2`` before the image. This is Darknet since 2018; earlier releases
    rounded the number of windows down for a size of 2 and a stride of 2.
    """
    return _pool(ctx, "MaxPool", {})


@layer("local_avgpool", "local_avg")
def local_avgpool(ctx: DarknetLayer) -> ir.Value:
    """The mean of each window, over what lies inside the image."""
    return _pool(ctx, "AveragePool", {"count_include_pad": 0})


def _pool(ctx: DarknetLayer, op_type: str, more: dict[str, int]) -> ir.Value:
    section = ctx.section
    ctx.expect_unset("antialiasing", "maxpool_depth", "maxpool_zero_nonmax")
    _, height, width = ctx.image()
    size = section.integer("size", section.integer("stride", 1, least=1), least=1)
    padding = section.integer("padding", size - 1, least=0)
    begin, end = padding // 2, padding - padding // 2
    window = Window([size, size], strides=section.strides(), pads=[begin, begin], end_pads=[end, end])
    window.check(ctx, section.lines.get("padding"), is_pooling=True)
    window.check_fits(ctx, (height, width))
    attributes = {"kernel_shape": window.kernel, "strides": window.strides, "pads": window.onnx_pads}
    return ctx.add(op_type, [ctx.x], attributes | more)


@layer("avgpool", "avg")
def avgpool(ctx: DarknetLayer) -> ir.Value:
    """The mean of each channel."""
    return ctx.add("GlobalAveragePool", [ctx.x])


_SHARED = ("relu", "logistic", "tanh", "elu", "mish", "swish", "relu6", "hardtan")
"""Activations that compute the same in all frameworks."""


def _loggy(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    twice = ctx.add("Mul", [ctx.add("Sigmoid", [x]), ctx.constant(2.0)])
    return ctx.add("Sub", [twice, ctx.constant(1.0)])


def _ramp(ctx: DarknetLayer, x: ir.Value) -> ir.Value:
    return ctx.add("Add", [ctx.add("Relu", [x]), ctx.add("Mul", [x, ctx.constant(0.1)])])


_ACTIVATIONS: dict[str, Callable[[DarknetLayer, ir.Value], ir.Value]] = {
    **{name: FUNCTIONS[name] for name in _SHARED},
    "gelu": partial(gelu, approximate=True),
    "leaky": partial(rectify, slope=0.1),
    "linear": lambda ctx, x: x,
    "loggy": _loggy,
    "ramp": _ramp,
    "relie": partial(rectify, slope=0.01),
    # Darknet rounds the constants of SELU to four places.
    "selu": lambda ctx, x: ctx.add("Selu", [x], {"alpha": 1.6732, "gamma": 1.0507}),
}


def activate(ctx: DarknetLayer, x: ir.Value, default: str) -> ir.Value:
    """Add the activation that a layer names.

    Args:
        ctx: The layer.
        x: What to activate.
        default: The activation of a layer that names none.

    Raises:
        UnsupportedError: The name is not known; Darknet itself goes on with ``relu``.
    """
    name = ctx.section.string("activation", default)
    if name not in _ACTIVATIONS:
        known = ", ".join(sorted(_ACTIVATIONS))
        raise ctx.unsupported(f"the activation {name!r} is not supported; expected one of {known}")
    return _ACTIVATIONS[name](ctx, x)


@layer("activation")
def activation(ctx: DarknetLayer) -> ir.Value:
    """An activation alone."""
    return activate(ctx, ctx.x, "linear")


@layer("softmax", "soft")
def softmax(ctx: DarknetLayer) -> ir.Value:
    """Softmax over each of ``groups`` equal parts of a row, at a ``temperature``; or over the channels."""
    section = ctx.section
    if section.has("tree"):
        raise ctx.unsupported("a softmax over a tree of classes is not supported")
    x = ctx.x
    if section.number("spatial", 0.0):
        return ctx.add("Softmax", [x], {"axis": 1})
    temperature = section.number("temperature", 1.0)
    rows = ctx.flatten(x)
    if temperature != 1.0:
        rows = ctx.add("Div", [rows, ctx.constant(temperature)])
    groups = section.integer("groups", 1, least=1)
    if groups == 1:
        return ctx.add("Softmax", [rows], {"axis": 1})
    parts = ctx.reshape(rows, [0, groups, -1])
    return ctx.flatten(ctx.add("Softmax", [parts], {"axis": 2}))


@layer("dropout")
def dropout(ctx: DarknetLayer) -> ir.Value:
    """In training a share of the numbers becomes 0, and the others are scaled up; else nothing happens."""
    if not ctx.trains:
        return ctx.x
    probability = ctx.section.number("probability", 0.5)
    if not 0 <= probability < 1:
        raise ctx.section.read_error("probability", "a number from 0 to below 1")
    return ctx.add("Dropout", [ctx.x, ctx.constant(probability)])


@layer("cost", "empty", "silence")
def passed_on(ctx: DarknetLayer) -> ir.Value:
    """A layer that only training knows, or that does nothing: what comes in goes out."""
    return ctx.x


EPSILON = 1e-5
"""Added to the variance: on GPUs of both branches and on CPUs of AlexeyAB's.

On a CPU pjreddie's adds 1e-6 to the standard deviation instead (blas.c), but nets were trained on GPUs.
"""

MOMENTUM = 0.99
"""Share of the stored statistics that a forward pass of training keeps."""


@layer("convolutional", "conv")
def convolutional(ctx: DarknetLayer) -> ir.Value:
    """Cross-correlation, then the stored statistics or a bias, then the activation.

    Padding counts in steps of the dilation (``im2col_cpu_ext``).
    """
    ctx.expect_unset("antialiasing", "binary", "xnor", "dot", "flipped", "share_index", "coordconv")
    ctx.expect_unset("sway", "rotate", "stretch", "stretch_sway", "reverse", "assisted_excitation")
    section = ctx.section
    channels, height, width = ctx.image()
    filters, groups = (section.integer(name, 1, least=1) for name in ("filters", "groups"))
    ctx.check_groups(groups, (channels, filters), setting="groups", line=section.lines.get("groups"))
    size = section.integer("size", 1, least=1)
    dilation = section.integer("dilation", 1, least=1) if size > 1 else 1
    window = Window(
        [size, size],
        strides=section.strides(),
        pads=[dilation * _padding(ctx, size)] * 2,
        dilations=[dilation, dilation],
    )
    window.check_fits(ctx, (height, width))
    shape = (filters, channels // groups, size, size)
    return _weighted(ctx, "Conv", shape, filters, window.attributes() | {"group": groups})


def _padding(ctx: DarknetLayer, size: int) -> int:
    return size // 2 if ctx.section.flag("pad") else ctx.section.integer("padding", 0, least=0)


@layer("deconvolutional", "deconv")
def deconvolutional(ctx: DarknetLayer) -> ir.Value:
    """The transpose of a convolution, with weights [in, out, kernel]."""
    channels, _, _ = ctx.image()
    filters, size, stride = (ctx.section.integer(name, 1, least=1) for name in ("filters", "size", "stride"))
    window = Window([size, size], strides=[stride, stride], pads=[_padding(ctx, size)] * 2)
    return _weighted(ctx, "ConvTranspose", (channels, filters, size, size), filters, window.attributes())


def _weighted(
    ctx: DarknetLayer, op_type: str, shape: tuple[int, ...], filters: int, attributes: Mapping[str, Any]
) -> ir.Value:
    """Add a convolution; the file holds biases, scales, means, variances, weights in this order."""
    biases = ctx.parameter("biases", (filters,), role="bias")
    statistics = _statistics(ctx, filters) if ctx.section.flag("batch_normalize") else None
    weights = ctx.parameter("weights", shape, role="weight", filler=_drawn("normal", shape))
    if statistics is None:
        return activate(ctx, ctx.add(op_type, [ctx.x, weights, biases], attributes), "logistic")
    product = ctx.add(op_type, [ctx.x, weights], attributes)
    return activate(ctx, _normalised(ctx, product, biases, statistics), "logistic")


@layer("connected", "conn")
def connected(ctx: DarknetLayer) -> ir.Value:
    """A dense layer over rows; the file holds biases, weights [out, in], scales, means, variances."""
    x = ctx.flatten(ctx.x)
    features = ctx.size(1, x)
    outputs = ctx.section.integer("output", 1, least=1)
    biases = ctx.parameter("biases", (outputs,), role="bias")
    drawn = _drawn("uniform", (outputs, features))
    if ctx.is_transposed:
        layout = [("transpose", (1, 0))]
        weights = ctx.parameter("weights", (features, outputs), role="weight", layout=layout, filler=drawn)
    else:
        weights = ctx.parameter("weights", (outputs, features), role="weight", filler=drawn)
    if not ctx.section.flag("batch_normalize"):
        return activate(ctx, ctx.add("Gemm", [x, weights, biases], {"transB": 1}), "logistic")
    product = ctx.add("Gemm", [x, weights], {"transB": 1})
    return activate(ctx, _normalised(ctx, product, biases, _statistics(ctx, outputs)), "logistic")


@layer("batchnorm")
def batchnorm(ctx: DarknetLayer) -> ir.Value:
    """Stored statistics alone; the file holds biases, scales, means, variances.

    This is the order of AlexeyAB's branch; pjreddie's file has no biases there.
    """
    channels = ctx.image()[0]
    biases = ctx.parameter("biases", (channels,), role="beta")
    return _normalised(ctx, ctx.x, biases, _statistics(ctx, channels))


@layer("local")
def local(ctx: DarknetLayer) -> ir.Value:
    """A convolution with weights of its own at every place: each window, as a column, times its matrix."""
    channels, height, width = ctx.image()
    filters, size, stride = (ctx.section.integer(name, 1, least=1) for name in ("filters", "size", "stride"))
    is_padded = ctx.section.flag("pad")
    pad = size // 2 if is_padded else 0
    rows, columns = ((extent - 1 if is_padded else extent - size) // stride + 1 for extent in (height, width))
    places, taps = rows * columns, channels * size * size
    # Where only the ends do not fit, Darknet's number of places is still one or more.
    if min(rows, columns) < 1:
        raise ctx.shape_error(f"a window of {size} does not fit in {height} by {width}")
    layout = [("reshape", (1, filters, rows, columns))]
    biases = ctx.parameter("biases", (filters * places,), role="bias", layout=layout)
    drawn = {"type": "uniform", "fan_in": taps}
    weights = ctx.parameter("weights", (places, filters, taps), role="weight", filler=drawn)
    picks = np.tile(
        np.eye(size * size, dtype=np.float32).reshape(size * size, 1, size, size), (channels, 1, 1, 1)
    )
    end = [
        max(0, (count - 1) * stride + size - extent - pad)
        for count, extent in zip((rows, columns), (height, width), strict=True)
    ]
    window = Window([size, size], strides=[stride, stride], pads=[pad, pad], end_pads=end)
    windows = ctx.add("Conv", [ctx.x, ctx.constant(picks)], window.attributes() | {"group": channels})
    columns_last = ctx.reshape(windows, [0, taps, places])
    product = ctx.add("MatMul", [weights, ctx.transpose(columns_last, [2, 1, 0])])
    image = ctx.reshape(ctx.transpose(product, [2, 1, 0]), [-1, filters, rows, columns])
    return activate(ctx, ctx.add("Add", [image, biases]), "logistic")


def _drawn(kind: str, shape: Sequence[int]) -> dict[str, Any]:
    """Return the rule for first values of weights, one filter for each row."""
    return {"type": kind, "fan_in": prod(shape[1:])}


def _statistics(ctx: DarknetLayer, size: int) -> list[ir.Value]:
    """Take the stored arrays of a batch normalisation; variances begin at 0, as Darknet's calloc has it."""
    ones = {"type": "constant", "value": 1.0}
    gamma = ctx.parameter("scales", (size,), role="gamma", filler=ones)
    mean = ctx.parameter("rolling_mean", (size,), role="mean")
    return [gamma, mean, ctx.parameter("rolling_variance", (size,), role="variance")]


def _normalised(ctx: DarknetLayer, x: ir.Value, biases: ir.Value, statistics: list[ir.Value]) -> ir.Value:
    """Normalise, in training as cuDNN does for Darknet: by the biased variance, keeping the unbiased one."""
    gamma, mean, variance = statistics
    return batch_normalization(
        ctx,
        x,
        gamma=gamma,
        beta=biases,
        mean=mean,
        variance=variance,
        epsilon=EPSILON,
        momentum=MOMENTUM if ctx.trains else None,
        statistics=Statistics(unbiased=True) if ctx.trains else None,
        training=ctx.trains,
    )
