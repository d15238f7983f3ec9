"""Operators of MXNet that convolve or resample."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.windows import Window, repeat_elements
from netweave.formats.mxnet.symbol.context import LAYOUTS, MXNetOperator, channels_first, channels_last
from netweave.formats.mxnet.symbol.registry import operator_reader, with_bias
from netweave.formats.mxnet.symbol.settings import Settings, is_channels_last


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


BILINEAR = {"mode": "linear", "align_corners": 1}
"""Places -1 and 1 are the centres of the outer pixels; beyond them is zero, ONNX's default."""

RESIZE_MODES = ("odd_scale", "like", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")

MAX_PIXELS = 1 << 22
"""A larger grid is refused before its places are computed."""


def _upsampling_arguments(settings: Settings) -> Sequence[str] | None:
    bilinear = settings.choice("sample_type", ("nearest", "bilinear")) == "bilinear"
    return ("data", "weight") if bilinear else None


@operator_reader("UpSampling", arguments=_upsampling_arguments, counted=True)
def upsampling(ctx: MXNetOperator) -> ir.Value:
    """Every pixel ``scale`` times; or a transposed convolution whose weights interpolate at first."""
    settings = ctx.settings
    scale = settings.count("scale")
    joined = settings.choice("multi_input_mode", ("concat", "sum"), "concat")
    filters = settings.count("num_filter", 1)
    settings.ignore("num_args")
    if ctx.has("weight"):
        return _interpolated(ctx, scale, filters)
    values = ctx.inputs()
    enlarged = [repeat_elements(ctx, value, _scale(ctx, values, value, scale)) for value in values]
    if joined == "sum" and len(enlarged) > 1:
        return ctx.add("Sum", enlarged)
    return ctx.concat(enlarged, 1)


def _interpolated(ctx: MXNetOperator, scale: int, filters: int) -> ir.Value:
    kernel = 2 * scale - scale % 2
    pad = scale // 2
    weight = ctx.parameter("weight", (filters, 1, kernel, kernel))
    attributes = {
        "kernel_shape": [kernel] * 2,
        "strides": [scale] * 2,
        "pads": [pad] * 4,
        "group": filters,
    }
    return ctx.add("ConvTranspose", [ctx.x, weight], attributes)


def _scale(ctx: MXNetOperator, values: Sequence[ir.Value], value: ir.Value, scale: int) -> int:
    """Return how much an input is enlarged: to the size that the first one gets."""
    if value is values[0]:
        return scale
    height, own = ctx.size(2, values[0]), ctx.size(2, value)
    if own < 1 or height * scale % own:
        raise ctx.shape_error(f"an input of height {own} cannot become {height * scale} high")
    return height * scale // own


@operator_reader("_contrib_BilinearResize2D")
def bilinear_resize(ctx: MXNetOperator) -> ir.Value:
    """To a height and width, or by factors."""
    settings = ctx.settings
    settings.choice("mode", ("size",), "size", unread=RESIZE_MODES)
    aligned = settings.flag("align_corners", True)
    factors = [settings.factor(f"scale_{side}", None) for side in ("height", "width")]
    sizes = [settings.integer(side, 1) for side in ("height", "width")]
    x = ctx.x
    given = [factor for factor in factors if factor is not None]
    if len(given) == 2:
        sizes = [int(size * factor) for size, factor in zip(ctx.sizes((2, 3), x), given, strict=True)]
    attributes = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners" if aligned else "half_pixel",
        "axes": [2, 3],
    }
    return ctx.add("Resize", [x, None, None, ctx.integers(sizes)], attributes)


@operator_reader("BilinearSampler", arguments=("data", "grid"))
def bilinear_sampler(ctx: MXNetOperator) -> ir.Value:
    """The first input read at the places of the second: x and y in channels, from -1 to 1."""
    return _sampled(ctx, ctx.x, ctx.input("grid"))


@operator_reader("GridGenerator")
def grid_generator(ctx: MXNetOperator) -> ir.Value:
    """Places of an affine map (N, 6), or of a flow (N, 2, H, W) in pixels."""
    kind = ctx.settings.choice("transform_type", ("affine", "warp"))
    target = ctx.settings.per_axis("target_shape", 2, 0)
    x = ctx.x
    if kind == "affine":
        return _affine_grid(ctx, x, target)
    height, width = ctx.sizes((2, 3), x)
    _check_pixels(ctx, height, width)
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    half = np.asarray([(width - 1) / 2, (height - 1) / 2], np.float32).reshape(1, 2, 1, 1)
    places = ctx.add("Add", [x, ctx.array(np.stack([columns, rows])[None])])
    return ctx.add("Sub", [ctx.add("Div", [places, ctx.array(half)]), ctx.scalar(1.0, x)])


@operator_reader("SpatialTransformer", arguments=("data", "loc"))
def spatial_transformer(ctx: MXNetOperator) -> ir.Value:
    """The first input read through the affine map of the second."""
    settings = ctx.settings
    settings.choice("transform_type", ("affine",))
    settings.choice("sampler_type", ("bilinear",))
    target = settings.per_axis("target_shape", 2, 0)
    x = ctx.x
    sizes = target if all(target) else ctx.sizes((2, 3), x)
    return _sampled(ctx, x, _affine_grid(ctx, ctx.input("loc"), sizes))


def _check_pixels(ctx: MXNetOperator, height: int, width: int) -> None:
    if not 0 < height * width <= MAX_PIXELS or height < 1:
        raise ctx.shape_error(f"a grid of {height}x{width} places, expected 1 to {MAX_PIXELS:,}")


def _sampled(ctx: MXNetOperator, x: ir.Value, places: ir.Value) -> ir.Value:
    return ctx.add("GridSample", [x, ctx.transpose(places, [0, 2, 3, 1])], BILINEAR)


def _affine_grid(ctx: MXNetOperator, loc: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Return the places (N, 2, H, W) that an affine map (N, 6) gives the pixels of an image."""
    height, width = sizes
    _check_pixels(ctx, height, width)
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    pixels = np.stack([x, y, np.ones_like(x)]).reshape(3, -1).astype(np.float32)
    theta = ctx.reshape(loc, [-1, 2, 3])
    places = ctx.add("MatMul", [theta, ctx.array(pixels)])
    return ctx.reshape(places, [0, 2, height, width])
