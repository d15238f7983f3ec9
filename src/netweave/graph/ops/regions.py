"""Pooling over regions of interest, by the largest and by the mean.

ONNX has the former, ONNX Runtime lacks it in the opset of our graphs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator
from netweave.graph.ops.box_geometry import mean_bins, region_bins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Bin = tuple[int, int]
"""Where a bin begins, and what it ends before."""


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
        for i, rows in enumerate(region_bins(top, bottom, height, x.shape[2])):
            for j, columns in enumerate(region_bins(left, right, width, x.shape[3])):
                if rows[0] < rows[1] and columns[0] < columns[1]:
                    yield (number, i, j), int(image), rows, columns


def _gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Return the gradient: of several largest cells of a bin the first gets all; regions get none."""
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


def _position_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, regions = shapes
    group, num_outputs = attributes["group_size"], attributes["output_dim"]
    if len(x) != 4 or len(regions) != 2 or regions[1] != 5:
        raise ValueError("expected an input (N, C, H, W) and regions (R, 5): image and corners")
    if x[1] != num_outputs * group * group:
        raise ValueError(
            f"{x[1]} channels, expected {num_outputs * group * group}: {num_outputs} for each of "
            f"{group}x{group} bins"
        )
    return [(regions[0], num_outputs, group, group)]


def _planes(x: np.ndarray, attributes: Attributes) -> np.ndarray:
    """Return the planes as (N, D, G, G, H, W)."""
    group = attributes["group_size"]
    return x.reshape(x.shape[0], attributes["output_dim"], group, group, *x.shape[2:])


def _mean_cells(
    planes: np.ndarray, regions: np.ndarray, attributes: Attributes
) -> Iterator[tuple[tuple[int, int, int], int, Bin, Bin]]:
    """Give for each bin that is not empty its place (region, row, column), image, rows and columns."""
    group, scale = attributes["group_size"], attributes["spatial_scale"]
    for number, (image, left, top, right, bottom) in enumerate(regions.tolist()):
        columns = mean_bins(left, right, group, planes.shape[5], scale=scale)
        for i, rows in enumerate(mean_bins(top, bottom, group, planes.shape[4], scale=scale)):
            for j, (x0, x1) in enumerate(columns):
                if rows[0] < rows[1] and x0 < x1:
                    yield (number, i, j), int(image), rows, (x0, x1)


def _position_gradient(
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    gradients: Sequence[np.ndarray],
    attributes: Attributes,
) -> Sequence[np.ndarray | None]:
    """Each cell of a bin gets an equal share; regions get none."""
    found = _planes(np.zeros_like(inputs[0]), attributes)
    for (number, i, j), image, (y0, y1), (x0, x1) in _mean_cells(found, inputs[1], attributes):
        share = gradients[0][number, :, i, j] / ((y1 - y0) * (x1 - x0))
        found[image, :, i, j, y0:y1, x0:x1] += share[:, None, None]
    return [found.reshape(inputs[0].shape), None]


@operator("PSROIPooling", shapes=_position_shapes, gradient=_position_gradient)
def position_sensitive_pooling(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """R-FCN psroi_pooling_layer.cu: the mean of each bin over channels of its own, 0 for an empty one.

    Inputs: (N, D * G * G, H, W), the bins of an output one after the other, and regions (R, 5): image and
    corners in pixels. Attributes: ``output_dim`` D, ``group_size`` G, ``spatial_scale`` from pixels to cells.
    """
    planes = _planes(inputs[0], attributes)
    found = np.zeros((len(inputs[1]), *planes.shape[1:4]), planes.dtype)
    for (number, i, j), image, (y0, y1), (x0, x1) in _mean_cells(planes, inputs[1], attributes):
        found[number, :, i, j] = planes[image, :, i, j, y0:y1, x0:x1].mean(axis=(1, 2))
    return [found]
