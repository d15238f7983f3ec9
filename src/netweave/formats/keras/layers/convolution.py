"""Convolutions (keras/layers/convolutional)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.registry import layer_reader
from netweave.lowering.channels_last import windows
from netweave.lowering.windows import Window

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.lowering.channels_last import Stored, Tensor


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
