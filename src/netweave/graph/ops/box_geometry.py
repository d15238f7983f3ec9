"""Geometry of boxes for any array library: NumPy's references, torch, and the bodies of ONNX functions.

A box is its corners (x0, y0, x1, y1) in the last axis. ``xp`` is the array library: ``numpy``, ``torch``, or
the tape that records the body of an ONNX function. The PyTorch writer copies these functions into its files,
so that they may use nothing but ``math`` and one another (decision 0133).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

Array = Any
"""An array of the library that ``xp`` is."""


class ArrayLibrary(Protocol):
    """The functions of an array library that the formulas need, besides the operators of its arrays."""

    def where(self, condition: Any, chosen: Any, other: Any, /) -> Any:
        """Return one array where the condition holds, the other elsewhere."""

    def exp(self, x: Any, /) -> Any:
        """Return the exponential of each element."""

    def concatenate(self, arrays: Sequence[Any], /, axis: int) -> Any:
        """Return arrays joined along an axis."""


def intersection_over_union(boxes: Array, others: Array, xp: ArrayLibrary, edge: float = 0.0) -> Array:
    """Return intersection over union of boxes; ``edge`` is 1 where the last pixel belongs to a box.

    The boxes broadcast against the others; a box without area overlaps nothing. As Caffe's JaccardOverlap
    (bbox_util.cpp), with its ``std::max`` and ``std::min``, which return their first argument unless the
    second one wins: so a box of NaN counts for what it counts there.
    """
    sides = []
    for axis in (0, 1):  # an axis at a time: NumPy is slow where the last axis has two elements
        low, other_low = boxes[..., axis], others[..., axis]
        high, other_high = boxes[..., axis + 2], others[..., axis + 2]
        begin = xp.where(low < other_low, other_low, low)
        end = xp.where(other_high < high, other_high, high)
        sides.append(box_side(begin, end, edge))
    meet = (sides[0] > 0.0) & (sides[1] > 0.0)
    shared = sides[0] * sides[1]
    union = box_areas(boxes, xp, edge) + box_areas(others, xp, edge) - shared
    return xp.where(meet, shared / xp.where(meet, union, 1.0), 0.0)


def box_areas(boxes: Array, xp: ArrayLibrary, edge: float = 0.0) -> Array:
    """Return the area of each box, 0 where its second corner lies before its first."""
    width = box_side(boxes[..., 0], boxes[..., 2], edge)
    height = box_side(boxes[..., 1], boxes[..., 3], edge)
    return xp.where((width < 0.0) | (height < 0.0), 0.0, width * height)


def box_side(low: Array, high: Array, edge: float) -> Array:
    """Return the length of a side; ``edge`` is what the last pixel adds to it."""
    return high - low + edge if edge else high - low


def decode_boxes(boxes: Array, deltas: Array, xp: ArrayLibrary) -> Array:
    """Return the boxes that deltas of centre and size place relative to others: bbox_util.cpp, DecodeBBox."""
    low, high = boxes[..., :2], boxes[..., 2:]
    size = high - low
    centre = deltas[..., :2] * size + (low + high) / 2.0
    half = xp.exp(deltas[..., 2:]) * size / 2.0
    return xp.concatenate([centre - half, centre + half], axis=-1)


def decode_pixel_boxes(anchors: Array, deltas: Array, xp: ArrayLibrary) -> Array:
    """Return the boxes of whole pixels that deltas place: MXNet proposal.cc, BBoxTransformInv."""
    low = anchors[..., :2]
    size = anchors[..., 2:] - low + 1.0
    centre = deltas[..., :2] * size + low + (size - 1.0) * 0.5
    half = (xp.exp(deltas[..., 2:]) * size - 1.0) * 0.5
    return xp.concatenate([centre - half, centre + half], axis=-1)


def decode_region_boxes(anchors: Array, deltas: Array, xp: ArrayLibrary) -> Array:
    """Return the boxes that deltas place, a pixel larger than MXNet's: py-faster-rcnn bbox_transform.py."""
    low = anchors[..., :2]
    size = anchors[..., 2:] - low + 1.0
    centre = deltas[..., :2] * size + low + size * 0.5
    half = xp.exp(deltas[..., 2:]) * size * 0.5
    return xp.concatenate([centre - half, centre + half], axis=-1)


def corners_of_centres(boxes: Array, xp: ArrayLibrary) -> Array:
    """Return boxes given by centre and size as corners."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2.0
    return xp.concatenate([centre - half, centre + half], axis=-1)


def centres_of_corners(boxes: Array, xp: ArrayLibrary) -> Array:
    """Return boxes given by corners as centre and size."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return xp.concatenate([(low + high) / 2.0, high - low], axis=-1)


def base_anchors(stride: int, ratios: Sequence[float], scales: Sequence[float]) -> list[list[float]]:
    """Return the anchors of the first cell, in pixels: MXNet proposal-inl.h, GenerateAnchors.

    >>> base_anchors(16, [1.0], [1.0, 2.0])
    [[0.0, 0.0, 15.0, 15.0], [-8.0, -8.0, 23.0, 23.0]]
    """
    anchors, centre = [], 0.5 * (stride - 1)
    for ratio in ratios:
        width = math.floor(math.sqrt(math.floor(stride * stride / ratio)) + 0.5)
        height = math.floor(width * ratio + 0.5)
        for scale in scales:
            x, y = 0.5 * (width * scale - 1), 0.5 * (height * scale - 1)
            anchors.append([centre - x, centre - y, centre + x, centre + y])
    return anchors


def region_bins(first: float, last: float, num_bins: int, size: int) -> list[tuple[int, int]]:
    """Return (begin, end) of each bin of a region along an axis, cut to the plane; one may be empty.

    As Caffe roi_pooling_layer.cpp.

    Args:
        first: Border of the region, in cells of the plane; both are rounded, half away from zero.
        last: The other border, which belongs to the region.
        num_bins: How many there are.
        size: Of the plane.

    >>> region_bins(0.5, 3.4, 2, 9)
    [(1, 3), (2, 4)]
    """
    begin, end = round_half_away(first), round_half_away(last)
    width = max(end - begin + 1, 1) / num_bins
    borders = [(begin + math.floor(i * width), begin + math.ceil((i + 1) * width)) for i in range(num_bins)]
    return [(min(max(low, 0), size), min(max(high, 0), size)) for low, high in borders]


def mean_bins(first: float, last: float, num_bins: int, size: int, scale: float) -> list[tuple[int, int]]:
    """Return (begin, end) of each bin of a region for position-sensitive pooling; neighbours may overlap.

    As R-FCN psroi_pooling_layer.cu, which makes no region narrower than a tenth of a cell.

    Args:
        first: Border of the region in pixels, rounded half away from zero.
        last: The other border, whose pixel belongs to the region.
        num_bins: How many there are.
        size: Of the plane.
        scale: From pixels to cells.

    >>> mean_bins(4.0, 11.0, 2, 9, scale=0.5)
    [(2, 4), (4, 6)]
    """
    begin, end = round_half_away(first) * scale, (round_half_away(last) + 1) * scale
    width = max(end - begin, 0.1) / num_bins
    borders = [(math.floor(i * width + begin), math.ceil((i + 1) * width + begin)) for i in range(num_bins)]
    return [(min(max(low, 0), size), min(max(high, 0), size)) for low, high in borders]


def round_half_away(value: float) -> int:
    """Return the nearest integer, of two the one further from zero: C's ``round``."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))
