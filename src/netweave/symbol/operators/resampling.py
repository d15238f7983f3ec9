"""Operators that read an image at other places (upsampling-inl.h, bilinear_sampler.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.symbol.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call
    from netweave.symbol.settings import Settings

BILINEAR = {"mode": "linear", "align_corners": 1}
"""Places -1 and 1 are the centres of the outer pixels; beyond them is zero, ONNX's default."""

MAX_PIXELS = 1 << 22
"""A larger grid is refused before its places are computed."""


def _upsampling_arguments(settings: Settings) -> Sequence[str] | None:
    bilinear = settings.choice("sample_type", ("nearest", "bilinear")) == "bilinear"
    return ("data", "weight") if bilinear else None


@operator_reader("UpSampling", arguments=_upsampling_arguments, counted=True)
def upsampling(call: Call) -> ir.Value:
    """Every pixel ``scale`` times; or a transposed convolution whose weights interpolate at first."""
    settings = call.settings
    scale = settings.count("scale")
    joined = settings.choice("multi_input_mode", ("concat", "sum"), "concat")
    filters = settings.count("num_filter", 1)
    settings.skip("num_args")
    if call.has("weight"):
        return _interpolated(call, scale, filters)
    values = call.values()
    made = [_enlarged(call, value, _scale(call, values, value, scale)) for value in values]
    if len(made) == 1:
        return made[0]
    return call.add("Sum", made) if joined == "sum" else call.add("Concat", made, {"axis": 1})


def _interpolated(call: Call, scale: int, filters: int) -> ir.Value:
    kernel = 2 * scale - scale % 2
    pad = scale // 2
    weight = call.parameter("weight", (filters, 1, kernel, kernel))
    attributes = {
        "kernel_shape": [kernel] * 2,
        "strides": [scale] * 2,
        "pads": [pad] * 4,
        "group": filters,
    }
    return call.add("ConvTranspose", [call.value("data"), weight], attributes)


def _scale(call: Call, values: Sequence[ir.Value], value: ir.Value, scale: int) -> int:
    """Return how much an input is enlarged: to the size that the first one gets."""
    if value is values[0]:
        return scale
    (height,), (own,) = call.known_sizes(values[0], [2]), call.known_sizes(value, [2])
    if own < 1 or height * scale % own:
        raise call.wrong(f"an input of height {own} cannot become {height * scale} high")
    return height * scale // own


def _enlarged(call: Call, x: ir.Value, scale: int) -> ir.Value:
    scales = call.array(np.asarray([1, 1, scale, scale], np.float32))
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return call.add("Resize", [x, None, scales], attributes)


@operator_reader("_contrib_BilinearResize2D")
def bilinear_resize(call: Call) -> ir.Value:
    """To a height and width, or by factors."""
    settings = call.settings
    settings.choice("mode", ("size",), "size")
    aligned = settings.flag("align_corners", True)
    factors = [settings.number(f"scale_{side}", None) for side in ("height", "width")]
    given = [settings.whole(side, 1) for side in ("height", "width")]
    x = call.value("data")
    if None in factors:
        sizes = given
    else:
        has = call.known_sizes(x, (2, 3))
        sizes = [int(size * factor) for size, factor in zip(has, factors, strict=True) if factor]
    attributes = {
        "mode": "linear",
        "coordinate_transformation_mode": "align_corners" if aligned else "half_pixel",
        "axes": [2, 3],
    }
    return call.add("Resize", [x, None, None, call.whole_numbers(sizes)], attributes)


@operator_reader("BilinearSampler", arguments=("data", "grid"))
def bilinear_sampler(call: Call) -> ir.Value:
    """The first input read at the places of the second: x and y in channels, from -1 to 1."""
    return _sampled(call, call.value("data"), call.value("grid"))


@operator_reader("GridGenerator")
def grid_generator(call: Call) -> ir.Value:
    """Places of an affine map (N, 6), or of a flow (N, 2, H, W) in pixels."""
    kind = call.settings.choice("transform_type", ("affine", "warp"))
    target = call.settings.per_axis("target_shape", 2, 0)
    x = call.value("data")
    if kind == "affine":
        return _affine_grid(call, x, target)
    height, width = call.known_sizes(x, (2, 3))
    _check_pixels(call, height, width)
    rows, columns = np.mgrid[:height, :width].astype(np.float32)
    half = np.asarray([(width - 1) / 2, (height - 1) / 2], np.float32).reshape(1, 2, 1, 1)
    places = call.add("Add", [x, call.array(np.stack([columns, rows])[None])])
    return call.add("Sub", [call.add("Div", [places, call.array(half)]), call.scalar(1.0, x)])


@operator_reader("SpatialTransformer", arguments=("data", "loc"))
def spatial_transformer(call: Call) -> ir.Value:
    """The first input read through the affine map of the second."""
    settings = call.settings
    settings.choice("transform_type", ("affine",))
    settings.choice("sampler_type", ("bilinear",))
    target = settings.per_axis("target_shape", 2, 0)
    x = call.value("data")
    sizes = target if all(target) else call.known_sizes(x, (2, 3))
    return _sampled(call, x, _affine_grid(call, call.value("loc"), sizes))


def _check_pixels(call: Call, height: int, width: int) -> None:
    if not 0 < height * width <= MAX_PIXELS or height < 1:
        raise call.wrong(f"a grid of {height}x{width} places, expected 1 to {MAX_PIXELS:,}")


def _sampled(call: Call, x: ir.Value, places: ir.Value) -> ir.Value:
    return call.add("GridSample", [x, call.add("Transpose", [places], {"perm": [0, 2, 3, 1]})], BILINEAR)


def _affine_grid(call: Call, loc: ir.Value, sizes: Sequence[int]) -> ir.Value:
    """Return the places (N, 2, H, W) that an affine map (N, 6) gives the pixels of an image."""
    height, width = sizes
    _check_pixels(call, height, width)
    y, x = np.meshgrid(np.linspace(-1, 1, height), np.linspace(-1, 1, width), indexing="ij")
    pixels = np.stack([x, y, np.ones_like(x)]).reshape(3, -1).astype(np.float32)
    theta = call.add("Reshape", [loc, call.whole_numbers([-1, 2, 3])])
    places = call.add("MatMul", [theta, call.array(pixels)])
    return call.add("Reshape", [places, call.whole_numbers([0, 2, height, width])])
