"""Resizing and sampling in torch."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.operator_table import Ints, Numbers, lowering

# Along an axis each output element is a weighted sum of a few input elements. Where they lie depends on the
# coordinate rule, their weights on the mode; both are worked out in float64 when the sizes are known.


def _places(rule: str, num_out: int, num_in: int, scale: float, roi: tuple[float, float]) -> Tensor:
    """Return where in the input each output element lies; ONNX ``coordinate_transformation_mode``.

    Args:
        rule: The mode's name.
        num_out: Elements of the output, for some rules as a size of its own.
        num_in: Elements of the input.
        scale: Output over input size as given, not as rounded.
        roi: Begin and end of the region, for ``tf_crop_and_resize``.
    """
    x = torch.arange(num_out, dtype=torch.float64)
    last_in, last_out = num_in - 1, scale * num_in - 1
    if rule == "half_pixel":
        return (x + 0.5) / scale - 0.5
    if rule == "asymmetric":
        return x / scale
    if rule == "pytorch_half_pixel":
        return (x + 0.5) / scale - 0.5 if num_out > 1 else torch.zeros_like(x)
    if rule == "align_corners":
        return x * last_in / last_out if last_out > 0 else torch.zeros_like(x)
    if rule == "half_pixel_symmetric":
        offset = num_in / 2 * (1 - num_out / (scale * num_in))
        return offset + (x + 0.5) / scale - 0.5
    begin, end = roi
    if num_out > 1:
        return begin * last_in + x * (end - begin) * last_in / (num_out - 1)
    return 0.5 * (begin + end) * last_in + 0 * x


def _nearest(places: Tensor, mode: str) -> Tensor:
    if mode == "round_prefer_floor":
        return torch.ceil(places - 0.5)
    if mode == "round_prefer_ceil":
        return torch.floor(places + 0.5)
    return torch.floor(places) if mode == "floor" else torch.ceil(places)


def _linear_weight(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


def _cubic_weight(distance: Tensor, a: float) -> Tensor:
    d = distance.abs()
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))


def _taps(
    places: Tensor,
    num_in: int,
    scale: float,
    *,
    mode: str,
    cubic_coeff_a: float,
    antialias: bool,
    exclude: bool,
) -> tuple[Tensor, Tensor]:
    """Return for each output element its input elements and their weights, (num_out, num_taps) each.

    With antialiasing a kernel is stretched by the shrinking. Elements outside of the input stand for the
    border; ``exclude`` gives them no weight instead.
    """
    stretch = max(1.0, 1.0 / scale) if antialias else 1.0
    reach = (1 if mode == "linear" else 2) * stretch
    num_taps = 2 * math.ceil(reach)
    first = torch.floor(places) - (num_taps // 2 - 1)
    indices = first[:, None] + torch.arange(num_taps, dtype=torch.float64)
    distance = (indices - places[:, None]) / stretch
    weights = _linear_weight(distance) if mode == "linear" else _cubic_weight(distance, cubic_coeff_a)
    if exclude:
        weights = torch.where((indices < 0) | (indices >= num_in), torch.zeros_like(weights), weights)
    weights = weights / weights.sum(1, keepdim=True)
    return indices.clamp(0, num_in - 1).to(torch.int64), weights


def _along(x: Tensor, axis: int, indices: Tensor, weights: Tensor) -> Tensor:
    weights = weights.to(x.device, x.dtype)
    shape = [1] * x.ndim
    shape[axis] = -1
    total = None
    for tap in range(indices.shape[1]):
        part = x.index_select(axis, indices[:, tap].to(x.device)) * weights[:, tap].reshape(shape)
        total = part if total is None else total + part
    assert total is not None
    return total


def _target(
    x: Tensor, axes: Sequence[int], scales: Sequence[float], sizes: Sequence[int], policy: str
) -> tuple[list[int], list[float]]:
    """Return the size and the scale of each axis; ONNX ``keep_aspect_ratio_policy``."""
    own = [x.shape[axis] for axis in axes]
    if not sizes:
        return [math.floor(n * s) for n, s in zip(own, scales, strict=True)], list(scales)
    ratios = [size / n for size, n in zip(sizes, own, strict=True)]
    if policy == "stretch":
        return list(sizes), ratios
    scale = min(ratios) if policy == "not_larger" else max(ratios)
    return [math.floor(scale * n + 0.5) for n in own], [scale] * len(own)


@lowering("Resize", since=19)
def resize(
    x: Tensor,
    roi: Numbers | None = None,
    scales: Numbers | None = None,
    sizes: Ints | None = None,
    *,
    antialias: int = 0,
    axes: Ints = (),
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    """Change the sizes of some axes by interpolation."""
    chosen = [axis % x.ndim for axis in axes] or list(range(x.ndim))
    shape, factors = _target(x, chosen, scales or (), sizes or (), keep_aspect_ratio_policy)
    regions = roi or (0.0,) * len(chosen) + (1.0,) * len(chosen)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    outside = []
    y = x if x.is_floating_point() else x.to(torch.float32)
    for i, axis in enumerate(chosen):
        num_in, num_out, scale = x.shape[axis], shape[i], factors[i]
        region = (regions[i], regions[i + len(chosen)])
        if num_in == num_out and scale == 1.0 and not crop:
            continue
        places = _places(coordinate_transformation_mode, num_out, num_in, scale, region)
        if crop:
            outside.append((axis, (places < 0) | (places > num_in - 1)))
        if mode == "nearest":
            indices = _nearest(places, nearest_mode).clamp(0, num_in - 1).to(torch.int64)
            y = y.index_select(axis, indices.to(y.device))
            continue
        indices, weights = _taps(
            places,
            num_in,
            scale,
            mode=mode,
            cubic_coeff_a=cubic_coeff_a,
            antialias=bool(antialias),
            exclude=bool(exclude_outside),
        )
        y = _along(y, axis, indices, weights)
    for axis, beyond in outside:
        shape_of_mask = [1] * y.ndim
        shape_of_mask[axis] = -1
        y = y.masked_fill(beyond.reshape(shape_of_mask).to(y.device), extrapolation_value)
    return y.to(x.dtype)


_MODES = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}


@lowering("GridSample", since=20)
def grid_sample(
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    """Sample at the places of a grid, -1 and 1 being the borders."""
    return functional.grid_sample(
        x, grid, mode=_MODES[mode], padding_mode=padding_mode, align_corners=bool(align_corners)
    )


@lowering("AffineGrid", since=20)
def affine_grid(theta: Tensor, size: Ints, *, align_corners: int = 0) -> Tensor:
    """Return the grid that an affine map makes of the unit grid."""
    return functional.affine_grid(theta, list(size), align_corners=bool(align_corners))
