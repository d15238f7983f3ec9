"""Convolutions, poolings and layers with a matrix of Keras (keras/layers/convolutional, pooling and core)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.keras.layers.elementwise import activate
from netweave.formats.keras.layers.recurrent import nonzero
from netweave.formats.lowering.channels_last import Stored, Tensor, windows
from netweave.formats.lowering.channels_last.layer import gather, reduce, widen
from netweave.formats.lowering.windows import Window


def _kernel_size(ctx: KerasLayer) -> list[int]:
    return ctx.per_axis("kernel_size", ctx.spatial_rank)


def _window(ctx: KerasLayer) -> windows.PaddedWindow:
    """Return the window; ``causal`` pads the begin by all that it reaches back."""
    rank, kernel, padding = ctx.spatial_rank, _kernel_size(ctx), ctx.padding()
    strides, dilations = ctx.per_axis("strides", rank), ctx.per_axis("dilation_rate", rank)
    if padding == "CAUSAL":
        return windows.PaddedWindow.of(kernel, strides, [(kernel[0] - 1) * dilations[0], 0], dilations)
    return windows.PaddedWindow.of(kernel, strides, padding, dilations)


def _bias(ctx: KerasLayer, filters: int) -> Stored | None:
    return ctx.optional_parameter("use_bias", "bias", (filters,), role="bias")


@layer_reader("Conv1D", "Conv2D", "Conv3D", "Convolution1D", "Convolution2D", "Convolution3D")
def convolution(ctx: KerasLayer) -> Tensor:
    """With a kernel of (sizes..., channels / groups, filters)."""
    last, filters, groups = ctx.is_last(), ctx.positive("filters"), ctx.integer("groups", 1)
    channels = ctx.channels(last=last)
    if groups < 1 or channels % groups:
        raise ctx.shape_error(f"{channels} channels cannot be divided into {groups} groups")
    kernel = ctx.parameter("kernel", (*_kernel_size(ctx), channels // groups, filters))
    convolved = windows.convolution(
        ctx, ctx.x, kernel, _window(ctx), groups=groups, bias=_bias(ctx, filters), last=last
    )
    return activate(ctx, convolved, "activation")


@layer_reader("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise_convolution(ctx: KerasLayer) -> Tensor:
    """Each channel by itself, with a kernel of (sizes..., channels, multiplier)."""
    last = ctx.is_last()
    channels, multiplier = ctx.channels(last=last), ctx.integer("depth_multiplier", 1)
    name = "depthwise_kernel" if ctx.version < 3 else "kernel"
    kernel = ctx.parameter(name, (*_kernel_size(ctx), channels, multiplier))
    bias = _bias(ctx, channels * multiplier)
    convolved = windows.convolution(ctx, ctx.x, kernel, _window(ctx), groups=None, bias=bias, last=last)
    return activate(ctx, convolved, "activation")


@layer_reader("SeparableConv1D", "SeparableConv2D", "SeparableConvolution2D")
def separable_convolution(ctx: KerasLayer) -> Tensor:
    """Each channel by itself, then all channels at each place."""
    rank, last, filters = ctx.spatial_rank, ctx.is_last(), ctx.positive("filters")
    channels, multiplier = ctx.channels(last=last), ctx.integer("depth_multiplier", 1)
    depthwise = ctx.parameter("depthwise_kernel", (*_kernel_size(ctx), channels, multiplier))
    pointwise = ctx.parameter("pointwise_kernel", (*[1] * rank, channels * multiplier, filters))
    inner = windows.convolution(ctx, ctx.x, depthwise, _window(ctx), groups=None, last=last)
    every_place = Window([1] * rank)
    convolved = windows.convolution(ctx, inner, pointwise, every_place, bias=_bias(ctx, filters), last=last)
    return activate(ctx, convolved, "activation")


@layer_reader("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "Deconvolution2D")
def transposed_convolution(ctx: KerasLayer) -> Tensor:
    """With a kernel of (sizes..., filters, channels)."""
    last, window, same = ctx.is_last(), _window(ctx), ctx.padding() == "SAME"
    filters, channels = ctx.positive("filters"), ctx.channels(last=last)
    surplus = None
    if ctx.setting("output_padding") is not None:
        wanted = ctx.per_axis("output_padding", ctx.spatial_rank)
        edges = [2 * (extent // 2) if same else 0 for extent in window.extents]
        surplus = [edge - more for edge, more in zip(edges, wanted, strict=True)]
    cut_window, extra = windows.transposed_window(window, surplus, same=same)
    kernel = ctx.parameter("kernel", (*window.kernel, filters, channels))
    convolved = windows.transposed_convolution(
        ctx, ctx.x, kernel, cut_window, extra=extra, bias=_bias(ctx, filters), last=last
    )
    return activate(ctx, convolved, "activation")


@layer_reader("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D")
@layer_reader("AveragePooling1D", "AveragePooling2D", "AveragePooling3D")
@layer_reader("AvgPool1D", "AvgPool2D", "AvgPool3D")
def pooling(ctx: KerasLayer) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor."""
    kernel = ctx.per_axis("pool_size", ctx.spatial_rank, 2)
    strides = ctx.per_axis("strides", ctx.spatial_rank, kernel)
    op_type = "MaxPool" if ctx.type.startswith("Max") else "AveragePool"
    window = windows.PaddedWindow.of(kernel, strides, ctx.padding())
    return windows.pooling(ctx, ctx.x, op_type, window, last=ctx.is_last())


@layer_reader("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
@layer_reader("GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D")
@layer_reader("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D")
@layer_reader("GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D")
def global_pooling(ctx: KerasLayer) -> Tensor:
    """Over all places; a mean over time leaves out the steps that do not count."""
    mask = ctx.mask(ctx.x)
    if mask is not None and ctx.type in {"GlobalAveragePooling1D", "GlobalAvgPool1D"}:
        return _counted_mean(ctx, mask)
    op_type = "ReduceMax" if "Max" in ctx.type else "ReduceMean"
    over = range(1, ctx.rank() - 1) if ctx.is_last() else range(2, ctx.rank())
    return reduce(ctx, op_type, ctx.x, over, keep=ctx.boolean("keepdims", False))


def _counted_mean(ctx: KerasLayer, mask: Tensor) -> Tensor:
    """Return the mean over the steps that count."""
    time = 1 if ctx.is_last() else 2
    counts = ctx.as_type(widen(ctx, mask, [3 - time]), ctx.x.value.dtype or ir.DataType.FLOAT)
    keep = ctx.boolean("keepdims", False)
    total = reduce(ctx, "ReduceSum", ctx.broadcast("Mul", [ctx.x, counts]), [time], keep=keep)
    return ctx.broadcast("Div", [total, reduce(ctx, "ReduceSum", counts, [time], keep=keep)])


@layer_reader("Dense")
def dense(ctx: KerasLayer) -> Tensor:
    """``x W + b`` over the last axis."""
    units, features = ctx.positive("units"), ctx.channels()
    weight = ctx.parameter("kernel", (features, units))
    bias = ctx.optional_parameter("use_bias", "bias", (units,), role="bias")
    if ctx.rank() == 2:
        product = Tensor(ctx.add("Gemm", [ctx.x, weight, *([bias] if bias else [])]))
    else:
        product = Tensor(ctx.add("MatMul", [ctx.x, weight]))
        product = ctx.broadcast("Add", [product, bias]) if bias else product
    return activate(ctx, product, "activation")


@layer_reader("EinsumDense")
def einsum_dense(ctx: KerasLayer) -> Tensor:
    """A sum over named axes of the input and a kernel, whose sizes follow from those of both sides."""
    equation = ctx.string("equation", "").replace(" ", "")
    inputs, _, out = equation.partition("->")
    left, _, kernel_axes = inputs.partition(",")
    given = ctx.setting("output_shape", [])
    rest = [given] if isinstance(given, int) else list(given)
    if not (left and kernel_axes and out) or len(set(left)) < len(left) or len(out) != len(rest) + 1:
        raise ctx.unsupported(f"equation={equation!r:.60} with output_shape={rest} is not supported")
    if "." in equation or len(left) != ctx.rank():
        raise ctx.unsupported(f"equation={equation!r:.60} of {ctx.rank()} axes is not supported")
    known = dict(zip(out[1:], rest, strict=True)) | dict(zip(left, ctx.shape(), strict=True))
    kernel = ctx.parameter("kernel", _known_sizes(ctx, known, kernel_axes))
    total = Tensor(ctx.add("Einsum", [ctx.x, kernel], {"equation": equation}))
    bias_axes = ctx.string("bias_axes", "")
    if bias_axes:
        if not set(bias_axes) <= set(out):
            raise ctx.read_error(f"bias_axes={bias_axes!r:.40} of equation={equation!r:.60}")
        held = [axis for axis in out if axis in bias_axes]
        sizes = dict(zip(held, _known_sizes(ctx, known, held), strict=True))
        # Keras stores size 1 for the axes between and behind that the bias does not have
        wide = [sizes.get(axis, 1) for axis in out[out.index(held[0]) :]]
        total = ctx.broadcast("Add", [total, ctx.parameter("bias", tuple(wide), role="bias")])
    return activate(ctx, total, "activation")


def _known_sizes(ctx: KerasLayer, known: Mapping[str, int | None], axes: Iterable[str]) -> list[int]:
    sizes = [known.get(axis) for axis in axes]
    if None in sizes:
        equation = ctx.string("equation", "")
        raise ctx.shape_error(f"the sizes of its arrays cannot be derived from equation={equation!r:.60}")
    return [size or 0 for size in sizes]


@layer_reader("Embedding")
def embedding(ctx: KerasLayer) -> Tensor:
    """A row of a table for each number."""
    table = ctx.parameter("embeddings", (ctx.positive("input_dim"), ctx.positive("output_dim")))
    numbers = ctx.x
    if numbers.value.dtype is not None and numbers.value.dtype.is_floating_point():
        numbers = ctx.as_type(numbers, ir.DataType.INT64)
    rows = gather(ctx, table, numbers, 0)
    return ctx.masked(rows, nonzero(ctx, ctx.x) if ctx.boolean("mask_zero", False) else None)
