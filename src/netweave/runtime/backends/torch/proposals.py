"""Regions from the heads of a region proposal network, in torch alone: MXNet's Proposal and Faster R-CNN's.

The PyTorch writer copies these functions into its files, as those of ``detectors``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.graph.ops.box_geometry import base_anchors, decode_pixel_boxes, decode_region_boxes
from netweave.runtime.backends.torch.detectors import suppress


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
