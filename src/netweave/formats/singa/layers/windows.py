"""Layers of SINGA that convolve, multiply or normalise."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.elementwise import batch_normalization
from netweave.formats.lowering.windows import Window
from netweave.formats.singa.context import Output, SingaLayer, layer
from netweave.graph.parameters import drawn, set_ties, tag_sources

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


# ``kConvolution`` and ``kPooling`` are mshadow's, which knows square windows alone and pools without
# padding; what SINGA would compute wrongly there is refused.


def _pair(settings: Message, name: str) -> tuple[int, int]:
    """Return (y, x): the square form where it is set, else the two others."""
    if name in settings:
        return (settings[name],) * 2
    return settings[f"{name}_y"], settings[f"{name}_x"]


def _read_window(ctx: SingaLayer, settings: Message, x: ir.Value, *, square: bool) -> Window:
    kernel, strides, pads = (_pair(settings, name) for name in ("kernel", "stride", "pad"))
    window = Window(kernel, strides=strides, pads=pads)
    window.check(ctx, settings.line)
    if square and any(y != x for y, x in (kernel, strides, pads)):
        raise ctx.read_error(
            f"SINGA's {ctx.spec['type']} has only square windows, found kernel {kernel}, stride {strides} "
            f"and padding {pads} (y, x)",
            settings.line,
        )
    window.check_fits(ctx, ctx.shape(x)[2:], settings.line)
    return window


@layer("kConvolution", "kCConvolution", "kCudnnConv")
def convolution(ctx: SingaLayer) -> Output:
    """Cross-correlation; weights [out, in * height * width], with a bias if there is a second parameter."""
    settings = ctx.spec["convolution_conf"]
    x = ctx.images()
    window = _read_window(ctx, settings, x, square=ctx.spec["type"] == "kConvolution")
    filters, channels = ctx.positive_field(settings, "num_filters"), ctx.size(1, x)
    count = ctx.expect_parameters([1, 2], "the weights and the bias")
    height, width = window.kernel
    layout = [("reshape", (filters, channels, height, width))]
    arrays = [ctx.parameter(0, (filters, channels * height * width), "weight", layout=layout)]
    if count == 2:
        arrays.append(ctx.parameter(1, (filters,), "bias"))
    return Output([ctx.add_output("Conv", [x, *arrays], window.attributes())])


@layer("kPooling", "kCPooling", "kCudnnPool")
def pooling(ctx: SingaLayer) -> Output:
    """Maximum or average; sizes are rounded down. Averages count padding, with cuDNN they do not."""
    settings = ctx.spec["pooling_conf"]
    if "stride" not in settings and "stride_x" not in settings:
        raise ctx.read_error(
            "has no 'stride', which is 1 in SINGA 0.1 and 2 in later ones; set the value that was used",
            settings.line,
        )
    kind = ctx.spec["type"]
    x = ctx.images()
    window = _read_window(ctx, settings, x, square=kind == "kPooling")
    if kind == "kPooling" and any(window.pads):
        raise ctx.read_error(
            "SINGA's kPooling has no padding, although it uses padding to compute sizes; use kCPooling",
            settings.line_of("pad"),
        )
    window.check(ctx, settings.line, is_pooling=True)
    if settings["pool"] == "MAX":
        largest = ctx.add_output("MaxPool", [x], window.attributes())
        return Output([set_ties(largest, "all") if kind == "kPooling" else largest])
    attributes = window.attributes() | {"count_include_pad": int(kind != "kCudnnPool")}
    return Output([ctx.add_output("AveragePool", [x], attributes)])


# ``inner_product.cc``, ``embedding.cc``, ``onehot.cc`` and ``rbm.cc``. The two layers of a machine read
# each other; a graph is one of the directions. Upwards the visible layer is what it reads, and the hidden
# one gives its probabilities. Downwards (see ``reader``) states of the hidden layer give those of the
# visible one.

_PARAMETERS = "the weights and the bias"


@layer("kRBMVis", sources=2)
def visible(ctx: SingaLayer) -> Output:
    """Upwards what it reads; downwards ``sigmoid(h * W + b)``, which SINGA does not sample."""
    ctx.expect_parameters([2], _PARAMETERS)
    return Output([ctx.data()])


@layer("kRBMHid")
def hidden(ctx: SingaLayer) -> Output:
    """``sigmoid(v * transposed W + b)``, without the sigmoid if ``gaussian``; weights [hidden, visible]."""
    size = ctx.positive_field(ctx.spec["rbm_conf"], "hdim")
    ctx.expect_parameters([2], _PARAMETERS)
    x, num_visible = ctx.rows()
    arrays = [ctx.parameter(0, (size, num_visible), "weight"), ctx.parameter(1, (size,), "bias")]
    if ctx.spec["rbm_conf"]["gaussian"]:
        return Output([ctx.add_output("Gemm", [x, *arrays], {"transB": 1})])
    return Output([ctx.add_output("Sigmoid", [ctx.add("Gemm", [x, *arrays], {"transB": 1})])])


def downwards(ctx: SingaLayer, num_visible: int) -> Output:
    """``sigmoid(h * W + b)`` of a visible layer, from the states of its hidden one."""
    x, size = ctx.rows()
    arrays = [ctx.parameter(0, (size, num_visible), "weight"), ctx.parameter(1, (num_visible,), "bias")]
    return Output([ctx.add_output("Sigmoid", [ctx.add("Gemm", [x, *arrays])])])


@layer("kInnerProduct")
def inner_product(ctx: SingaLayer) -> Output:
    """A matrix product over all but the batch, with a bias; weights [out, in], or transposed if told so."""
    settings = ctx.spec["innerproduct_conf"]
    num_output, transpose = ctx.positive_field(settings, "num_output"), settings["transpose"]
    ctx.expect_parameters([2], "the weights and the bias")
    x, num_inputs = ctx.rows()
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    weight = ctx.parameter(0, shape, "weight")
    bias = ctx.parameter(1, (num_output,), "bias")
    return Output([ctx.add_output("Gemm", [x, weight, bias], {"transB": int(not transpose)})])


@layer("kEmbedding")
def embedding(ctx: SingaLayer) -> Output:
    """Rows of a table [vocab_size, feature_dim], chosen by whole numbers that come as floats."""
    settings = ctx.spec["embedding_conf"]
    shape = ctx.positive_field(settings, "vocab_size"), ctx.positive_field(settings, "feature_dim")
    ctx.expect_parameters([1], "the table")
    table = ctx.parameter(0, shape, "weight")
    index = ctx.cast(ctx.data(), ir.DataType.INT64)
    return Output([ctx.add_output("Gather", [table, index], {"axis": 0})])


@layer("kOneHot")
def one_hot(ctx: SingaLayer) -> Output:
    """1 at the place that a whole number says, 0 elsewhere; ``vocab_size`` places."""
    settings = ctx.spec["onehot_conf"]
    size = ctx.positive_field(settings, "vocab_size")
    index = ctx.cast(ctx.data(), ir.DataType.INT64)
    places = ctx.constant(size, dtype="int64")
    return Output([ctx.add_output("OneHot", [index, places, ctx.constant([0, 1])], {"axis": -1})])


BM_EPSILON = 1e-5
"""What cuDNN adds to variances (``CUDNN_BN_MIN_EPSILON``)."""


@layer("kSoftmax", "kCudnnSoftmax")
def softmax(ctx: SingaLayer) -> Output:
    """Softmax over all but the batch; ``num_softmax_per_instance`` is ignored, as there."""
    x, _ = ctx.rows()
    return Output([ctx.add_output("Softmax", [x], {"axis": 1})])


@layer("kLRN", "kCudnnLRN")
def local_response(ctx: SingaLayer) -> Output:
    """``x * (knorm + alpha / local_size * sum of squares) ** -beta`` over neighbouring channels."""
    settings = ctx.spec["lrn_conf"]
    size = settings["local_size"]
    if size < 1 or size % 2 == 0:
        raise ctx.read_error(
            f"'local_size' is {size}, expected an odd number", settings.line_of("local_size")
        )
    x = ctx.data()
    ctx.require_rank(4, x)
    attributes = {
        "size": size,
        "alpha": settings["alpha"],
        "beta": settings["beta"],
        "bias": settings["knorm"],
    }
    return Output([ctx.add_output("LRN", [x], attributes)])


@layer("kCudnnBM")
def batch_norm(ctx: SingaLayer) -> Output:
    """Normalisation by channel; besides means there is ``1 / sqrt(variance + eps)``, as cuDNN 4 keeps it."""
    ctx.expect_parameters([4], "factors, offsets, means and inverse deviations")
    x = ctx.data()
    ctx.require_rank(4, x)
    channels = ctx.size(1, x)
    shape, layout = (1, channels, 1, 1), [("reshape", (channels,))]
    scale = ctx.parameter(0, shape, "gamma", layout=layout)
    shift = ctx.parameter(1, shape, "beta", layout=layout)
    mean, variance = _statistics(ctx, shape)
    normalised = batch_normalization(
        ctx,
        x,
        gamma=scale,
        beta=shift,
        mean=mean,
        variance=variance,
        epsilon=BM_EPSILON,
        momentum=0.0 if ctx.training else None,  # the statistics are those of the last batch
        training=ctx.training,
        name=ctx.unit.name,
    )
    return Output([normalised])


def _statistics(ctx: SingaLayer, shape: tuple[int, ...]) -> tuple[ir.Value, ir.Value]:
    """Return means and variances, computed from the arrays that are stored."""
    key, mean = ctx.statistic(2, shape, "mean")
    inverse_key, inverse = ctx.statistic(3, shape, "variance")
    means: np.ndarray | ir.LazyTensor = drawn(key, shape[1:2], "mean")
    variances: np.ndarray | ir.LazyTensor = drawn(inverse_key, shape[1:2], "variance")
    if mean is not None:
        means = mean.reshape(-1)
    if inverse is not None:
        with np.errstate(divide="ignore", over="ignore"):
            exact = 1 / np.square(inverse.reshape(-1).astype(np.float64)) - BM_EPSILON
        variances = np.clip(exact, 0, np.finfo(np.float32).max).astype(np.float32)
    values = (
        ctx.builder.derived(means, name=f"{ctx.layer.key}/mean"),
        ctx.builder.derived(variances, name=f"{ctx.layer.key}/variance"),
    )
    for value, source in zip(values, (key, inverse_key), strict=True):
        tag_sources(value, [source])
    return values


STANH_OUTER = 1.7159047
STANH_INNER = 0.66666667
"""The factors of the scaled tanh: ``singa_op.h``."""

_ACTIVATIONS = {"RELU": "Relu", "SIGMOID": "Sigmoid", "TANH": "Tanh"}


def _one(op_type: str, ctx: SingaLayer) -> Output:
    return Output([ctx.add_output(op_type, [ctx.data()])])


layer("kReLU")(partial(_one, "Relu"))
layer("kSigmoid")(partial(_one, "Sigmoid"))


@layer("kSTanh")
def scaled_tanh(ctx: SingaLayer) -> Output:
    """``1.7159047 * tanh(0.66666667 * x)``."""
    inner = ctx.add("Mul", [ctx.data(), ctx.constant(STANH_INNER)])
    tanh = ctx.add("Tanh", [inner])
    return Output([ctx.add_output("Mul", [tanh, ctx.constant(STANH_OUTER)])])


@layer("kActivation", "kCudnnActivation")
def activation(ctx: SingaLayer) -> Output:
    """``RELU``, ``SIGMOID`` or ``TANH``, as ``activation_conf`` says; SINGA never wrote ``STANH``."""
    settings = ctx.spec["activation_conf"]
    if settings["type"] not in _ACTIVATIONS:
        raise ctx.unsupported(
            f"the type {settings['type']} is not computed by SINGA in this layer; use a kSTanh",
            settings.line_of("type"),
        )
    return _one(_ACTIVATIONS[settings["type"]], ctx)


@layer("kDropout")
def dropout(ctx: SingaLayer) -> Output:
    """Zeroes elements in training and scales the rest; outside it, nothing."""
    settings = ctx.spec["dropout_conf"]
    ratio = settings["dropout_ratio"]
    if not 0 <= ratio < 1:
        raise ctx.read_error(
            f"'dropout_ratio' is {ratio:g}, expected 0 or more and less than 1",
            settings.line_of("dropout_ratio"),
        )
    return Output([ctx.add_output("Dropout", [ctx.data(), ctx.constant(ratio)])])
