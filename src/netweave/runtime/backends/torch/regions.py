"""Regions of interest: proposals of MXNet's and Faster R-CNN's networks, and pooling over them, in torch.

The PyTorch writer copies these functions into its files, as those of ``detectors``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.graph.ops.box_geometry import (
    base_anchors,
    decode_pixel_boxes,
    decode_region_boxes,
    mean_bins,
    region_bins,
)
from netweave.runtime.backends.torch.detectors import suppress
from netweave.runtime.backends.torch.operator_table import Ints, lowering


def shifted_anchors(anchors: Tensor, scores: Tensor, stride: int) -> Tensor:
    """Return the anchors of each cell: (height, width, anchors, 4)."""
    height, width = scores.shape[2:]
    y = torch.arange(height, dtype=anchors.dtype, device=anchors.device) * stride
    x = torch.arange(width, dtype=anchors.dtype, device=anchors.device) * stride
    y, x = torch.meshgrid(y, x, indexing="ij")
    return torch.stack([x, y, x, y], -1)[:, :, None] + anchors


def proposal(
    scores: Tensor,
    deltas: Tensor,
    info: Tensor,
    *,
    rpn_pre_nms_top_n: int = 6000,
    rpn_post_nms_top_n: int = 300,
    threshold: float = 0.7,
    rpn_min_size: int = 16,
    scales: tuple[float, ...] = (4.0, 8.0, 16.0, 32.0),
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0),
    feature_stride: int = 16,
    iou_loss: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return regions as rows of image and corners, best first, and their scores, as MXNet does."""
    anchors = scores.new_tensor(base_anchors(feature_stride, ratios, scales))
    cells = shifted_anchors(anchors, scores, feature_stride)
    regions, chances = [], []
    for image, (height, width, scale) in enumerate(info):
        score = scores[image, len(anchors) :].permute(1, 2, 0).clone()
        moves = deltas[image].permute(1, 2, 0).reshape(*score.shape, 4)
        boxes = cells + moves if iou_loss else decode_pixel_boxes(cells, moves, torch)
        borders = torch.stack([width, height, width, height]) - 1
        boxes = torch.minimum(boxes, borders).clamp(min=0).reshape(-1, 4)
        score[int(height / feature_stride) :] = -1  # cells of the padding
        score[:, int(width / feature_stride) :] = -1
        score = score.flatten()
        least = scale * rpn_min_size
        small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(1)
        boxes[small] += boxes.new_tensor([-1.0, -1.0, 1.0, 1.0]) * (least / 2)
        score[small] = -1
        order = score.argsort(descending=True, stable=True)
        order = order[:rpn_pre_nms_top_n] if rpn_pre_nms_top_n > 0 else order
        most = min(rpn_post_nms_top_n, len(order))
        kept = suppress(boxes, order, threshold, most=most, edge=1.0)
        kept = kept[torch.arange(most, device=kept.device) % len(kept)]  # repeated where fewer survive
        regions.append(torch.cat([boxes.new_full((most, 1), image), boxes[kept]], 1))
        chances.append(score[kept, None])
    return torch.cat(regions), torch.cat(chances)


def region_proposal(
    scores: Tensor,
    deltas: Tensor,
    info: Tensor,
    *,
    feature_stride: int = 16,
    scales: tuple[float, ...] = (8.0, 16.0, 32.0),
    ratios: tuple[float, ...] = (0.5, 1.0, 2.0),
    pre_nms_top_n: int = 6000,
    post_nms_top_n: int = 300,
    nms_threshold: float = 0.7,
    min_size: float = 16.0,
) -> tuple[Tensor, Tensor]:
    """Return regions as rows of image 0 and corners, best first, and their scores, as py-faster-rcnn does."""
    anchors = scores.new_tensor(base_anchors(16, ratios, scales))
    cells = shifted_anchors(anchors, scores, feature_stride)
    score = scores[0, len(anchors) :].permute(1, 2, 0)
    moves = deltas[0].permute(1, 2, 0).reshape(*score.shape, 4)
    height, width, scale = info[0, :3]
    borders = torch.stack([width, height, width, height]) - 1
    boxes = torch.minimum(decode_region_boxes(cells, moves, torch), borders)
    boxes = boxes.clamp(min=0).reshape(-1, 4)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= min_size * scale).all(1)
    boxes, score = boxes[large], score.reshape(-1)[large]
    order = score.argsort(descending=True, stable=True)
    order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
    most = post_nms_top_n if post_nms_top_n > 0 else len(order)
    kept = suppress(boxes, order, nms_threshold, most=most, edge=1.0)
    return torch.cat([boxes.new_zeros(len(kept), 1), boxes[kept]], 1), score[kept, None]


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
