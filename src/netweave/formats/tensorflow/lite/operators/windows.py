"""Windows and recurrence of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor, windows
from netweave.formats.lowering.channels_last.layer import flatten, reshape
from netweave.formats.lowering.channels_last.windows import Weights, recurrent
from netweave.formats.lowering.recurrent import RecurrentCell
from netweave.formats.tensorflow.lite.registry import lite_operator
from netweave.formats.tensorflow.operands import Item

if TYPE_CHECKING:
    from netweave.formats.tensorflow.lite.context import LiteOperator


# Filters are (filters, height, width, channels), those of a depthwise convolution (1, height, width,
# channels).

AXES = ("h", "w")
"""What the options call the spatial axes, in order."""


def _window(ctx: LiteOperator, kernel: Sequence[int], axes: Sequence[str] = AXES) -> windows.PaddedWindow:
    strides = [ctx.integer(f"stride_{axis}", 1) for axis in axes]
    dilations = [ctx.integer(f"dilation_{axis}_factor", 1) for axis in axes]
    return windows.PaddedWindow.of(kernel, strides, ctx.string("padding", "SAME"), dilations)


def _transposed(ctx: LiteOperator, x: Operand, perm: tuple[int, ...]) -> Operand:
    """Return weights with their axes in another order: those that are stored stay so."""
    ctx.require_rank(len(perm), x)
    return x.transposed(perm) if isinstance(x, Stored) else Tensor(ctx.transpose(ctx.source(x), perm))


@lite_operator("CONV_2D")
def convolution(ctx: LiteOperator) -> Tensor:
    """In groups where the input has more channels than the filter."""
    kernel = _transposed(ctx, ctx.operand(1), (1, 2, 3, 0))
    height, width, per_group, _ = ctx.sizes(range(4), kernel)
    channels = ctx.shape(ctx.x)[-1]
    groups = channels // per_group if channels and per_group and channels % per_group == 0 else 1
    window = _window(ctx, [height, width])
    return windows.convolution(ctx, ctx.x, kernel, window, groups=groups, bias=ctx.optional(2))


@lite_operator("DEPTHWISE_CONV_2D")
def depthwise_convolution(ctx: LiteOperator) -> Tensor:
    """Each channel by itself; filters of one channel stand beside one another."""
    kernel, channels = ctx.operand(1), ctx.size(-1)
    ctx.require_rank(4, kernel)
    _, height, width, count = ctx.sizes(range(4), kernel)
    if not channels or count % channels:
        raise ctx.shape_error(f"has {count} filters for {channels} channels, expected a multiple of them")
    sizes = (height, width, channels, count // channels)
    split: Operand = (
        kernel.reshaped(sizes)
        if isinstance(kernel, Stored)
        else Tensor(ctx.reshape(ctx.source(kernel), sizes))
    )
    return windows.convolution(
        ctx, ctx.x, split, _window(ctx, [height, width]), groups=None, bias=ctx.optional(2)
    )


@lite_operator("CONV_3D")
def convolution_3d(ctx: LiteOperator) -> Tensor:
    """With filters of (depth, height, width, channels, filters), as TensorFlow has them."""
    kernel = ctx.operand(1)
    window = _window(ctx, ctx.sizes(range(3), kernel), ("d", *AXES))
    return windows.convolution(ctx, ctx.x, kernel, window, bias=ctx.optional(2))


@lite_operator("TRANSPOSE_CONV", "CONV_3D_TRANSPOSE")
def transposed_convolution(ctx: LiteOperator) -> list[Item]:
    """The gradient of a convolution: (sizes, filter, x, bias)."""
    flat = ctx.op == "TRANSPOSE_CONV"
    kernel = _transposed(ctx, ctx.operand(1), (1, 2, 0, 3)) if flat else ctx.operand(1)
    axes = AXES if flat else ("d", *AXES)
    attributes = {
        "padding": ctx.string("padding", "SAME"),
        "strides": [1, *(ctx.integer(f"stride_{axis}", 1) for axis in axes), 1],
        "dilations": [1, *(ctx.integer(f"dilation_{axis}_factor", 1) for axis in axes), 1],
    }
    op = "Conv2DBackpropInput" if flat else "Conv3DBackpropInputV2"
    x = ctx.call(op, [ctx.item(0), kernel, ctx.operand(2)], attributes)
    bias = ctx.optional(3)
    return x if bias is None else ctx.call("BiasAdd", [x[0], bias], {"data_format": "NHWC"})


@lite_operator("FULLY_CONNECTED")
def fully_connected(ctx: LiteOperator) -> Tensor:
    """``x W^T + b`` over the last axis; other axes are joined unless ``keep_num_dims`` says otherwise."""
    if ctx.string("weights_format", "DEFAULT") != "DEFAULT":
        raise ctx.unsupported("weights_format is not DEFAULT, which is not supported")
    weight, bias = ctx.operand(1), ctx.optional(2)
    ctx.require_rank(2, weight)
    features = ctx.size(1, weight)
    x: Operand = ctx.x
    if not ctx.setting("keep_num_dims", False) and (ctx.rank(x) != 2 or ctx.shape(x)[-1] != features):
        joins = None not in ctx.shape(x)[1:] and prod(ctx.sizes(range(1, ctx.rank(x)), x)) == features
        x = flatten(ctx, ctx.tensor(x)) if joins else reshape(ctx, x, [None, features])
    if ctx.rank(x) == 2:
        arrays = [ctx.in_layout(weight, role="weight")]
        arrays += [] if bias is None else [ctx.in_layout(bias, role="bias")]
        return Tensor(ctx.add("Gemm", [x, *arrays], {"transB": 1}))
    product = Tensor(ctx.add("MatMul", [x, ctx.in_layout(weight, [("transpose", (1, 0))], role="weight")]))
    return product if bias is None else ctx.broadcast("Add", [product, bias])


@lite_operator("MAX_POOL_2D", moves=True)
def max_pooling(ctx: LiteOperator) -> Tensor:
    """Padding does not count for the maximum."""
    return windows.pooling(ctx, ctx.x, "MaxPool", _pool_window(ctx))


@lite_operator("AVERAGE_POOL_2D")
def average_pooling(ctx: LiteOperator) -> Tensor:
    """Padding does not count in the divisor."""
    return windows.pooling(ctx, ctx.x, "AveragePool", _pool_window(ctx))


@lite_operator("L2_POOL_2D")
def l2_pooling(ctx: LiteOperator) -> Tensor:
    """The root of the mean of squares."""
    squares = ctx.elementwise("square", ctx.x)
    return ctx.elementwise("sqrt", windows.pooling(ctx, squares, "AveragePool", _pool_window(ctx)))


def _pool_window(ctx: LiteOperator) -> windows.PaddedWindow:
    return _window(ctx, [ctx.integer("filter_height", 1), ctx.integer("filter_width", 1)])


@lite_operator("BATCH_MATMUL")
def batch_matmul(ctx: LiteOperator) -> list[Item]:
    """A product of matrices."""
    return ctx.call("BatchMatMulV2")


KERNELS, RECURRENT, BIASES = range(1, 5), range(5, 9), range(12, 16)
"""Inputs by gate: the input's, the forget gate's, the cell's, the output's."""

FURTHER = {9: "peepholes", 10: "peepholes", 11: "peepholes", 16: "a projection", 20: "a layer normalisation"}
"""Optional inputs that are not read."""


@lite_operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(ctx: LiteOperator) -> Tensor:
    """Every step's output, from states of zeros."""
    for index, what in FURTHER.items():
        if ctx.optional(index) is not None:
            raise ctx.unsupported(f"has {what}, which is not supported")
    activation = ctx.string("fused_activation_function", "NONE")
    if activation != "TANH" or ctx.number("cell_clip", 0.0) or ctx.number("proj_clip", 0.0):
        clip = ctx.number("cell_clip", 0.0)
        raise ctx.unsupported(f"computes with {activation} and clips cells by {clip:g}; expected TANH and 0")
    if ctx.optional(KERNELS[0]) is None:
        raise ctx.unsupported("couples its input gate to the forget gate, which is not supported")
    units = ctx.size(0, ctx.operand(KERNELS[0]))
    weights = Weights(
        _joined(ctx, KERNELS, "kernel").transposed((1, 0)),
        _joined(ctx, RECURRENT, "recurrent").transposed((1, 0)),
        _joined(ctx, BIASES, "bias"),
    )
    time_major = bool(ctx.setting("time_major", False))
    x = ctx.tensor(ctx.x)
    steps = recurrent(
        ctx, RecurrentCell("LSTM"), _swapped(ctx, x) if time_major else x, [weights], units=units
    )
    return _swapped(ctx, steps.steps) if time_major else steps.steps


def _joined(ctx: LiteOperator, indices: range, name: str) -> Stored:
    """Return the arrays of all gates as one, in Keras's order, which is TFLite's."""
    arrays = [ctx.stored(index, "a weight of a gate") for index in indices]
    values = [array.array for array in arrays if array.array is not None]
    if len({array.shape for array in arrays}) > 1:
        raise ctx.shape_error(f"has gates of {[array.shape for array in arrays]}, expected all alike")
    joined = np.concatenate(values)
    return Stored.parameter(
        f"{ctx.node.name}/{name}", joined, joined.shape, "bias" if name == "bias" else "weight"
    )


def _swapped(ctx: LiteOperator, x: Tensor) -> Tensor:
    return Tensor(ctx.transpose(ctx.source(x), [1, 0, 2]))
