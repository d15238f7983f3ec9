"""Operators that read an image at other places (upsampling-inl.h, bilinear_sampler.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.resizing import repeat_elements
from netweave.formats.mxnet.symbol.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

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
    factors = [settings.number(f"scale_{side}", None) for side in ("height", "width")]
    given = [settings.integer(side, 1) for side in ("height", "width")]
    x = ctx.x
    if None in factors:
        sizes = given
    else:
        has = ctx.sizes((2, 3), x)
        sizes = [int(size * factor) for size, factor in zip(has, factors, strict=True) if factor]
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
