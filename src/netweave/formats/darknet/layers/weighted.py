"""Layers with weights (convolutional_layer.c, connected_layer.c, deconvolutional_layer.c, local_layer.c)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.darknet.context import DarknetLayer, layer
from netweave.formats.darknet.layers.activation import activate
from netweave.formats.lowering.normalization import batch_normalization
from netweave.formats.lowering.windows import Window
from netweave.graph import Statistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

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
    if ctx.training is not None and not ctx.is_frozen:
        ctx.training.scales.append(gamma)
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
