"""Pooling over regions of interest.

The PyTorch writer copies these functions into its files, as those of ``detectors``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.graph.ops.box_geometry import mean_bins, region_bins
from netweave.runtime.backends.torch.table import Ints, lowering


@lowering("ROIPooling", since=1, domain="netweave")
@lowering("MaxRoiPool", since=1)
def roi_pooling(x: Tensor, rois: Tensor, *, pooled_shape: Ints, spatial_scale: float = 1.0) -> Tensor:
    """Take the largest of each bin of each region, whose borders are rounded; an empty bin gives zero."""
    out = []
    for image, *borders in rois.tolist():
        left, top, right, bottom = (border * spatial_scale for border in borders)
        rows = region_bins(top, bottom, pooled_shape[0], x.shape[2])
        columns = region_bins(left, right, pooled_shape[1], x.shape[3])
        plane = x[int(image)]
        cells = [
            # of several that are largest, the first one gets the gradient
            torch.nn.functional.adaptive_max_pool2d(plane[:, y0:y1, x0:x1], 1)[:, 0, 0]
            if y0 < y1 and x0 < x1
            else plane.new_zeros(x.shape[1])
            for y0, y1 in rows
            for x0, x1 in columns
        ]
        out.append(torch.stack(cells, 1).reshape(-1, *pooled_shape))
    return torch.stack(out) if out else x.new_zeros(0, x.shape[1], *pooled_shape)


@lowering("PSROIPooling", since=1, domain="netweave")
def psroi_pooling(
    x: Tensor, rois: Tensor, *, group_size: int, output_dim: int, spatial_scale: float
) -> Tensor:
    """Take the mean of each bin of each region over the channels of that bin; an empty bin gives zero."""
    planes = x.unflatten(1, (output_dim, group_size, group_size))
    out = []
    for image, left, top, right, bottom in rois.tolist():
        rows = mean_bins(top, bottom, group_size, x.shape[2], scale=spatial_scale)
        columns = mean_bins(left, right, group_size, x.shape[3], scale=spatial_scale)
        cells = [
            planes[int(image), :, i, j, y0:y1, x0:x1].mean((1, 2))
            if y0 < y1 and x0 < x1
            else x.new_zeros(output_dim)
            for i, (y0, y1) in enumerate(rows)
            for j, (x0, x1) in enumerate(columns)
        ]
        out.append(torch.stack(cells, 1).reshape(-1, group_size, group_size))
    return torch.stack(out) if out else x.new_zeros(0, output_dim, group_size, group_size)
