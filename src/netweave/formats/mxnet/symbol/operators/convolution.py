"""Layers with weights (convolution-inl.h, deconvolution-inl.h, fully_connected-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.windows import Window
from netweave.formats.mxnet.symbol.context import LAYOUTS, channels_first, channels_last
from netweave.formats.mxnet.symbol.registry import operator_reader, with_bias
from netweave.formats.mxnet.symbol.settings import is_channels_last

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator


@operator_reader("Convolution", "Convolution_v1", arguments=with_bias(default_no_bias=False))
def convolution(ctx: MXNetOperator) -> ir.Value:
    """Cross-correlation with weights (num_filter, channels / group, kernel...)."""
    window, num_filter, groups = _settings(ctx)
    last = is_channels_last(ctx.settings.choice("layout", LAYOUTS, None))
    x = channels_first(ctx, ctx.x, last)
    channels = _channels(ctx, x, window)
    window.check_fits(ctx, ctx.shape(x)[2:])
    ctx.check_groups(groups, (channels, num_filter), setting="num_group")
    per_group = None if channels is None else channels // groups
    if last:
        rank = len(window.kernel)
        layout = [("transpose", (0, rank + 1, *range(1, rank + 1)))]
        weight = ctx.parameter("weight", (num_filter, *window.kernel, per_group), layout=layout)
    else:
        weight = ctx.parameter("weight", (num_filter, per_group, *window.kernel))
    attributes = window.attributes() | {"group": groups}
    return channels_last(ctx, ctx.add("Conv", [x, weight, *_bias(ctx, num_filter)], attributes), last)


@operator_reader("Deconvolution", arguments=with_bias(default_no_bias=True))
def deconvolution(ctx: MXNetOperator) -> ir.Value:
    """Transposed convolution with weights (channels, num_filter / group, kernel...)."""
    window, num_filter, groups = _settings(ctx)
    ctx.settings.choice("layout", LAYOUTS[:3], None, unread=LAYOUTS[3:])
    rank = len(window.kernel)
    channels = _channels(ctx, ctx.x, window)
    ctx.check_groups(groups, (channels, num_filter), setting="num_group")
    adj = ctx.settings.per_axis("adj", rank, 0)
    target = ctx.settings.per_axis("target_shape", rank, 0)
    if any(target):
        window, adj = _window_for(ctx, window, target)
    attributes = window.attributes() | {"group": groups, "output_padding": list(adj) if any(adj) else None}
    weight = ctx.parameter("weight", (channels, num_filter // groups, *window.kernel))
    return ctx.add("ConvTranspose", [ctx.x, weight, *_bias(ctx, num_filter)], attributes)


@operator_reader("FullyConnected", arguments=with_bias(default_no_bias=False))
def fully_connected(ctx: MXNetOperator) -> ir.Value:
    """``x W^T + b`` over all axes but the first, or over the last one with ``flatten=False``."""
    num_hidden = ctx.settings.count("num_hidden")
    x = ctx.flatten(ctx.x) if ctx.settings.flag("flatten", True) else ctx.x
    shape = (num_hidden, ctx.open_size(-1, x))
    if ctx.rank(x) == 2:
        weight = ctx.parameter("weight", shape)
        return ctx.add("Gemm", [x, weight, *_bias(ctx, num_hidden)], {"transB": 1})
    weight = ctx.parameter("weight", shape, layout=[("transpose", (1, 0))])
    product, bias = ctx.add("MatMul", [x, weight]), _bias(ctx, num_hidden)
    return ctx.add("Add", [product, *bias]) if bias else product


def _settings(ctx: MXNetOperator) -> tuple[Window, int, int]:
    """Return the window, the number of filters and that of groups."""
    settings, kernel = ctx.settings, ctx.settings.kernel()
    rank = len(kernel)
    window = Window(
        kernel,
        strides=settings.per_axis("stride", rank, 1),
        pads=settings.per_axis("pad", rank, 0),
        dilations=settings.per_axis("dilate", rank, 1),
    )
    return window, settings.count("num_filter"), settings.count("num_group", 1)


def _bias(ctx: MXNetOperator, size: int) -> list[ir.Value]:
    return [ctx.parameter("bias", (size,))] if ctx.has("bias") else []


def _channels(ctx: MXNetOperator, x: ir.Value, window: Window) -> int | None:
    rank = len(window.kernel) + 2
    if ctx.rank(x) != rank:
        raise ctx.shape_error(f"its input has {ctx.rank(x)} axes, its kernel needs {rank}")
    return ctx.open_size(1, x)


def _window_for(ctx: MXNetOperator, window: Window, target: Sequence[int]) -> tuple[Window, tuple[int, ...]]:
    """Return window and output padding for ``target_shape``, which beats ``pad`` and ``adj`` (InferPad)."""
    sizes = ctx.sizes(range(2, ctx.rank()))
    totals = [
        stride * (size - 1) + extent - wanted
        for size, wanted, stride, extent in zip(sizes, target, window.strides, window.extents, strict=True)
    ]
    if min(totals) < 0:
        raise ctx.shape_error(f"target_shape {tuple(target)} is larger than the output can be")
    pads = [(total + 1) // 2 for total in totals]
    adj = tuple(total % 2 for total in totals)
    return Window(window.kernel, window.strides, pads, dilations=window.dilations), adj
