"""Pooling over R regions of an input (N, C, H, W), each cut into bins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.onnx.functions.boxes import indices
from netweave.formats.onnx.functions.table import LOWEST, FunctionNode, body
from netweave.formats.onnx.functions.tape import Tensor, constant, loop, op

if TYPE_CHECKING:
    from collections.abc import Sequence


@body("ROIPooling")
def roi_pooling(node: FunctionNode) -> Sequence[Tensor]:
    """One region at a time: ONNX Runtime's MaxRoiPool ends before the opset of our files."""
    x, regions = node.inputs
    height, width = node.settings["pooled_shape"]
    image, *borders = (part.cast(ir.DataType.DOUBLE) for part in regions.split(5, axis=1))
    left, top, right, bottom = (
        _rounded(border * _double(node.settings["spatial_scale"])) for border in borders
    )
    rows = _bins(top, bottom, height, x.size(2))
    columns = _bins(left, right, width, x.size(3))
    images = op("Squeeze", image.cast(ir.DataType.INT64), [1])

    def step(number: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        plane = op("Gather", x, op("Gather", images, number))
        own = [op("Gather", borders, number) for borders in (*rows, *columns)]
        return None, [], [_pooled(plane, own)]

    (found,) = loop(op("Squeeze", regions.size(0)), None, [], step)
    sizes = op("Concat", regions.size(0), x.size(1), [height, width], axis=0)
    return [op("Reshape", found, sizes, allowzero=1)]


def _double(value: float) -> Tensor:
    return constant(np.array(value, np.float64))


def _rounded(value: Tensor) -> Tensor:
    """Return a border in cells, half away from zero."""
    return op("Sign", value) * op("Floor", op("Abs", value) + _double(0.5))


def _bins(first: Tensor, last: Tensor, num_bins: int, size: Tensor) -> tuple[Tensor, Tensor]:
    """Return where bins begin and what they end before, (R, bins), as ``box_geometry.region_bins``."""
    width = op("Max", last - first + _double(1), _double(1)) / _double(num_bins)
    number = indices(constant([num_bins])).cast(ir.DataType.DOUBLE)
    borders = (
        first + op("Floor", width * number),
        first + op("Ceil", width * (number + _double(1))),
    )
    begin, end = (op("Max", op("Min", b.cast(ir.DataType.INT64), size), 0) for b in borders)
    return begin, end


def _pooled(plane: Tensor, borders: list[Tensor]) -> Tensor:
    """Return the largest of each bin, 0 for an empty one: the rows of each bin first, then the columns."""
    found = plane  # (C, H, W)
    full = []
    for axis, (begin, end) in ((1, borders[:2]), (2, borders[2:])):
        first = op("Min", op("ReduceMin", begin, [0]), plane.size(axis) - 1)
        last = op("Max", op("ReduceMax", end, [0]), first + 1)
        found = found.part(first, last, axis=axis)
        place = op("Range", op("Squeeze", first), op("Squeeze", last), 1).at(0)
        inside = (place >= begin.at(1)) & (place < end.at(1))  # (bins, places)
        inside = inside.at(0, 3) if axis == 1 else inside.at(0, 1)
        found = op("Where", inside, found.at(axis), LOWEST)
        found = op("ReduceMax", found, [axis + 1], keepdims=0)
        full.append(begin < end)
    return op("Where", full[0].at(1) & full[1].at(0), found, 0.0)


@body("PSROIPooling")
def position_sensitive_pooling(node: FunctionNode) -> Sequence[Tensor]:
    """The mean of each bin over channels of its own: of planes (D, G, G, H, W), 0 outside the bins."""
    x, regions = node.inputs
    group, num_outputs = node.settings["group_size"], node.settings["output_dim"]
    scale = _double(node.settings["spatial_scale"])
    image, left, top, right, bottom = (p.cast(ir.DataType.DOUBLE) for p in regions.split(5, axis=1))
    rows = _mean_bins(top, bottom, group, x.size(2), scale)
    columns = _mean_bins(left, right, group, x.size(3), scale)
    images = op("Squeeze", image.cast(ir.DataType.INT64), [1])
    planes = op("Reshape", x, op("Concat", [0, num_outputs, group, group], x.sizes(2), axis=0))

    def step(number: Tensor) -> tuple[None, list[Tensor], list[Tensor]]:
        found = op("Gather", planes, op("Gather", images, number))
        counts = []
        for axis, each, shape in ((3, rows, (0, 2, 4)), (4, columns, (0, 1, 3))):
            begin, end = (op("Gather", border, number) for border in each)
            place = indices(found.size(axis)).at(0)
            inside = (place >= begin.at(1)) & (place < end.at(1))  # (bins, places)
            found = op("Where", inside.at(*shape), found, 0.0)
            counts.append(op("Max", end - begin, 0).cast(ir.DataType.FLOAT))
        area = counts[0].at(1) * counts[1].at(0)
        total = op("ReduceSum", found, [3, 4], keepdims=0)
        return None, [], [total / op("Max", area, 1.0)]

    (found,) = loop(op("Squeeze", regions.size(0)), None, [], step)
    sizes = op("Concat", regions.size(0), [num_outputs, group, group], axis=0)
    return [op("Reshape", found, sizes, allowzero=1)]


def _mean_bins(
    first: Tensor, last: Tensor, num_bins: int, size: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """Return where bins begin and what they end before, (R, bins), as ``box_geometry.mean_bins``."""
    start, stop = _rounded(first) * scale, (_rounded(last) + _double(1)) * scale
    width = op("Max", stop - start, _double(0.1)) / _double(num_bins)
    number = indices(constant([num_bins])).cast(ir.DataType.DOUBLE)
    borders = (
        op("Floor", width * number + start),
        op("Ceil", width * (number + _double(1)) + start),
    )
    begin, end = (op("Max", op("Min", b.cast(ir.DataType.INT64), size), 0) for b in borders)
    return begin, end
