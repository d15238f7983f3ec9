"""Pooling over regions of interest: ONNX has it, ONNX Runtime lacks it in the opset of our graphs."""

from __future__ import annotations

from math import ceil, copysign, floor
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Bin = tuple[int, int]
"""Where a bin begins, and what it ends before."""


def bins(first: float, last: float, num_bins: int, size: int) -> list[Bin]:
    """Return the bins of a region along an axis, cut to the plane; one may be empty.

    Args:
        first: Border of the region, in cells of the plane; both are rounded, half away from zero.
        last: The other border, which belongs to the region.
        num_bins: How many there are.
        size: Of the plane.

    >>> bins(0.5, 3.4, 2, 9)
    [(1, 3), (2, 4)]
    """
    begin, end = _rounded(first), _rounded(last)
    width = max(end - begin + 1, 1) / num_bins
    return [
        (_within(begin + floor(number * width), size), _within(begin + ceil((number + 1) * width), size))
        for number in range(num_bins)
    ]


def _rounded(value: float) -> int:
    return int(copysign(floor(abs(value) + 0.5), value))


def _within(place: int, size: int) -> int:
    return min(max(place, 0), size)


def _shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, regions = shapes
    if len(x) != 4 or len(regions) != 2 or regions[1] != 5:
        raise ValueError("expected an input (N, C, H, W) and regions (R, 5): image and corners")
    return [(regions[0], x[1], *attributes["pooled_shape"])]


def _cells(
    x: np.ndarray, regions: np.ndarray, attributes: Attributes
) -> Iterator[tuple[tuple[int, int, int], int, Bin, Bin]]:
    """Give for each bin that is not empty its place (region, row, column), image, rows and columns."""
    height, width = attributes["pooled_shape"]
    for number, (image, *borders) in enumerate(regions.tolist()):
        left, top, right, bottom = (border * attributes["spatial_scale"] for border in borders)
        for i, rows in enumerate(bins(top, bottom, height, x.shape[2])):
            for j, columns in enumerate(bins(left, right, width, x.shape[3])):
                if rows[0] < rows[1] and columns[0] < columns[1]:
                    yield (number, i, j), int(image), rows, columns


def _gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Where several cells of a bin are largest, the first one gets it all; regions get none."""
    x, regions = inputs
    found = np.zeros_like(x)
    channels = np.arange(x.shape[1])
    for (number, i, j), image, (y0, y1), (x0, x1) in _cells(x, regions, attributes):
        largest = x[image, :, y0:y1, x0:x1].reshape(len(channels), -1).argmax(axis=1)
        rows, columns = np.divmod(largest, x1 - x0)
        found[image, channels, y0 + rows, x0 + columns] += gradients[0][number, :, i, j]
    return [found, None]


@operator("ROIPooling", shapes=_shapes, gradient=_gradient)
def roi_pooling(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Caffe roi_pooling_layer.cpp, MXNet roi_pooling.cc: the largest of each bin, 0 for an empty one.

    Inputs: (N, C, H, W) and regions (R, 5): image and corners in pixels. Attributes: ``pooled_shape``
    (height, width), ``spatial_scale`` from pixels to cells.
    """
    x, regions = inputs
    found = np.zeros((len(regions), x.shape[1], *attributes["pooled_shape"]), x.dtype)
    for (number, i, j), image, (y0, y1), (x0, x1) in _cells(x, regions, attributes):
        found[number, :, i, j] = x[image, :, y0:y1, x0:x1].max(axis=(1, 2))
    return [found]
