"""MXNet's Proposal (``graph/ops/proposals``) and Faster R-CNN's (``graph/ops/region_proposals``)."""

from __future__ import annotations

BASE_ANCHORS = '''\
def base_anchors(stride, ratios, scales):
    """Return the anchors of the first cell, in pixels."""
    found, centre = [], 0.5 * (stride - 1)
    for ratio in ratios:
        width = int(int(stride * stride / ratio) ** 0.5 + 0.5)
        height = int(width * ratio + 0.5)
        for scale in scales:
            x, y = 0.5 * (width * scale - 1), 0.5 * (height * scale - 1)
            found.append([centre - x, centre - y, centre + x, centre + y])
    return torch.tensor(found)
'''

MOVED = '''\
def moved(anchors, deltas, iou_loss):
    """Return the boxes that locations say, by their corners or by centres and sizes."""
    if iou_loss:
        return anchors + deltas
    size = anchors[..., 2:] - anchors[..., :2] + 1
    centre = deltas[..., :2] * size + anchors[..., :2] + 0.5 * (size - 1)
    half = 0.5 * (deltas[..., 2:].exp() * size - 1)
    return torch.cat([centre - half, centre + half], -1)
'''

REGIONS_KEPT = '''\
def regions_kept(boxes, threshold, most):
    """Return which boxes stay, best first; both corners of a box belong to it."""
    areas = (boxes[:, 2:] - boxes[:, :2] + 1).prod(1)
    kept, left = [], torch.arange(len(boxes))
    while len(left) and len(kept) < most:
        best, left = left[0], left[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[left, :2])
        high = torch.minimum(boxes[best, 2:], boxes[left, 2:])
        common = (high - low + 1).clamp(min=0).prod(1)
        left = left[common / (areas[best] + areas[left] - common) <= threshold]
    return torch.stack(kept) if kept else left
'''

PROPOSAL = '''\
def proposal(
    scores, deltas, info, rpn_pre_nms_top_n=6000, rpn_post_nms_top_n=300, threshold=0.7,
    rpn_min_size=16, scales=(4.0, 8.0, 16.0, 32.0), ratios=(0.5, 1.0, 2.0), feature_stride=16,
    iou_loss=False,
):
    """Return regions as rows of image and corners, best first, and their scores, as MXNet does."""
    anchors = base_anchors(feature_stride, ratios, scales)
    y, x = (torch.arange(float(size)) * feature_stride for size in scores.shape[2:])
    y, x = torch.meshgrid(y, x, indexing="ij")
    cells = torch.stack([x, y, x, y], -1)[:, :, None] + anchors
    regions, found = [], []
    for image, (height, width, scale) in enumerate(info):
        score = scores[image, len(anchors) :].permute(1, 2, 0).clone()
        boxes = moved(cells, deltas[image].permute(1, 2, 0).reshape(*score.shape, 4), iou_loss)
        borders = torch.stack([width, height, width, height]) - 1
        boxes = torch.minimum(boxes, borders).clamp(min=0).reshape(-1, 4)
        score[int(height / feature_stride) :] = -1  # cells of the padding
        score[:, int(width / feature_stride) :] = -1
        score = score.flatten()
        least = scale * rpn_min_size
        small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(1)
        boxes[small] += torch.tensor([-1.0, -1.0, 1.0, 1.0]) * (least / 2)
        score[small] = -1
        order = score.argsort(descending=True, stable=True)
        order = order[:rpn_pre_nms_top_n] if rpn_pre_nms_top_n > 0 else order
        most = min(rpn_post_nms_top_n, len(order))
        kept = order[regions_kept(boxes[order], threshold, most)]
        kept = kept[torch.arange(most) % len(kept)]  # where fewer stay they are repeated
        regions.append(torch.cat([torch.full((most, 1), float(image)), boxes[kept]], 1))
        found.append(score[kept, None])
    return torch.cat(regions), torch.cat(found)
'''

REGION_PROPOSAL = '''\
def region_proposal(
    scores, deltas, info, feature_stride=16, scales=(8.0, 16.0, 32.0), ratios=(0.5, 1.0, 2.0),
    pre_nms_top_n=6000, post_nms_top_n=300, nms_threshold=0.7, min_size=16.0,
):
    """Return regions as rows of image 0 and corners, best first, and their scores."""
    anchors = base_anchors(16, ratios, scales)
    y, x = (torch.arange(float(size)) * feature_stride for size in scores.shape[2:])
    y, x = torch.meshgrid(y, x, indexing="ij")
    cells = torch.stack([x, y, x, y], -1)[:, :, None] + anchors
    score = scores[0, len(anchors) :].permute(1, 2, 0)
    deltas = deltas[0].permute(1, 2, 0).reshape(*score.shape, 4)
    size = cells[..., 2:] - cells[..., :2] + 1
    centre = deltas[..., :2] * size + cells[..., :2] + 0.5 * size
    half = 0.5 * deltas[..., 2:].exp() * size
    height, width, scale = info[0, :3]
    borders = torch.stack([width, height, width, height]) - 1
    boxes = torch.minimum(torch.cat([centre - half, centre + half], -1), borders)
    boxes = boxes.clamp(min=0).reshape(-1, 4)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= min_size * scale).all(1)
    boxes, score = boxes[large], score.reshape(-1)[large]
    order = score.argsort(descending=True, stable=True)
    order = order[:pre_nms_top_n] if pre_nms_top_n > 0 else order
    most = post_nms_top_n if post_nms_top_n > 0 else len(order)
    kept = order[regions_kept(boxes[order], nms_threshold, most)]
    return F.pad(boxes[kept], (1, 0)), score[kept, None]
'''

TEXTS = {
    "base_anchors": BASE_ANCHORS,
    "moved": MOVED,
    "regions_kept": REGIONS_KEPT,
    "proposal": PROPOSAL,
    "region_proposal": REGION_PROPOSAL,
}
