"""Heads of detectors in torch alone: boxes that survive, and their rows.

The PyTorch writer copies these functions into its files (decision 0133), so that they may use nothing but
``torch``, ``graph.ops.box_geometry`` and one another. Netweave itself runs the registry's forward for them
(see ``detection``); ``tests/runtime/backends/torch/test_detectors.py`` holds these against it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.graph.ops.box_geometry import (
    centres_of_corners,
    corners_of_centres,
    decode_boxes,
    intersection_over_union,
)


def suppress(
    boxes: Tensor,
    order: Tensor,
    threshold: float,
    *,
    eta: float = 1.0,
    most: int | None = None,
    edge: float = 0.0,
) -> Tensor:
    """Return which boxes survive of candidates, best first: none overlaps a better one by more."""
    kept = order[:0]
    for block in order.split(256):  # the overlaps of a block at a time: torch is slow at small steps
        common = intersection_over_union(boxes[block][:, None], boxes[torch.cat([kept, block])], torch, edge)
        largest = torch.cat([boxes.new_zeros(len(block), 1), common[:, : len(kept)]], 1).amax(1)
        survivors = []
        for number in range(len(block)):
            if largest[number] <= threshold:
                survivors.append(number)
                largest = torch.maximum(largest, common[:, len(kept) + number])
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
        kept = torch.cat([kept, block[survivors]])
        if most is not None and len(kept) >= most:
            return kept[:most]
    return kept


def detection_output(
    boxes: Tensor,
    scores: Tensor,
    *,
    background_label_id: int = 0,
    confidence_threshold: float = -3.4028234663852886e38,
    nms_threshold: float = 0.3,
    top_k: int = -1,
    keep_top_k: int = -1,
    eta: float = 1.0,
) -> Tensor:
    """Return a row for each detection, as Caffe does: image, class, score and corners."""
    images = []
    for image, (all_boxes, all_scores) in enumerate(zip(boxes, scores, strict=True)):
        rows = [scores.new_empty(0, 7)]
        for label, score in enumerate(all_scores.T):
            if label == background_label_id:
                continue
            own = all_boxes[:, min(label, all_boxes.shape[1] - 1)]
            order = score.argsort(descending=True, stable=True)
            order = order[score[order] > confidence_threshold]
            order = suppress(own, order[:top_k] if top_k >= 0 else order, nms_threshold, eta=eta)
            place = scores.new_tensor([image, label]).expand(len(order), 2)
            rows.append(torch.cat([place, score[order, None], own[order]], 1))
        detections = torch.cat(rows)
        if 0 <= keep_top_k < len(detections):
            best = detections[:, 2].argsort(descending=True, stable=True)[:keep_top_k]
            detections = detections[best.sort().values]
        images.append(detections)
    if not any(len(rows) for rows in images):  # then a row for each image, of its number and -1
        numbers = torch.arange(len(scores), dtype=scores.dtype, device=scores.device)
        images = [torch.cat([numbers[:, None], scores.new_full((len(scores), 6), -1)], 1)]
    return torch.cat(images)[None, None]


def multibox_detection(
    probabilities: Tensor,
    locations: Tensor,
    anchors: Tensor,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    nms_threshold: float = 0.5,
    force_suppress: bool = False,
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2),
    nms_topk: int = -1,
) -> Tensor:
    """Return rows of class, score and corners, best first, as MXNet does: class -1 for none."""
    deltas = locations.reshape(len(locations), -1, 4) * locations.new_tensor(variances)
    boxes = decode_boxes(anchors, deltas, torch)
    boxes = boxes.clamp(0, 1) if clip else boxes
    scores, labels = probabilities[:, 1:].max(1)
    tables = torch.cat([labels[..., None].to(scores.dtype), scores[..., None], boxes], -1)
    results = torch.full_like(tables, -1)
    for table, out in zip(tables, results, strict=True):
        rows = table[(table[:, 1] > -1) & (table[:, 1] >= threshold)]
        count = min(nms_topk, len(rows)) if nms_topk > 0 else len(rows)
        if 0 < nms_threshold <= 1:
            order = rows[:, 1].argsort(descending=True, stable=True)
            rows = torch.cat([rows[order[:count]], rows[count:]])
            rows[count:, 0] = -1
            for number, row in enumerate(rows[:count]):
                later = rows[number + 1 : count]
                if row[0] >= 0:
                    rivals = (later[:, 0] == row[0]) | bool(force_suppress)
                    common = intersection_over_union(row[2:], later[:, 2:], torch)
                    later[rivals & (common >= nms_threshold), 0] = -1
        out[: len(rows)] = rows
    return results


def box_nms(
    table: Tensor,
    *,
    overlap_thresh: float = 0.5,
    valid_thresh: float = 0.0,
    topk: int = -1,
    coord_start: int = 2,
    score_index: int = 1,
    id_index: int = -1,
    background_id: int = -1,
    force_suppress: bool = False,
    in_format: str = "corner",
    out_format: str = "corner",
) -> Tensor:
    """Return the rows that survive, best first, as MXNet does, and rows of -1 behind them."""
    results = table.new_full(table.shape, -1)
    own = slice(coord_start, coord_start + 4)
    for rows, out in zip(table.flatten(0, -3), results.view(-1, *table.shape[-2:]), strict=True):
        valid = rows[:, score_index] > valid_thresh
        if id_index >= 0:
            valid &= rows[:, id_index] != background_id
        candidates = rows[valid]
        order = candidates[:, score_index].argsort(descending=True, stable=True)
        candidates = candidates[order[:topk] if topk > 0 else order]
        boxes = candidates[:, own]
        boxes = corners_of_centres(boxes, torch) if in_format == "center" else boxes
        stays = torch.ones(len(candidates), dtype=torch.bool, device=table.device)
        for number in range(len(candidates)):
            if stays[number]:
                later = slice(number + 1, None)
                rivals = intersection_over_union(boxes[number], boxes[later], torch) > overlap_thresh
                if id_index >= 0 and not force_suppress:
                    rivals &= candidates[later, id_index] == candidates[number, id_index]
                stays[later] &= ~rivals
        kept = candidates[stays]
        if in_format != out_format:
            old = kept[:, own]
            new = corners_of_centres(old, torch) if in_format == "center" else centres_of_corners(old, torch)
            kept[:, own] = torch.where(old[:, :1] < 0, old, new)  # MXNet takes these for no boxes
        out[: len(kept)] = kept
    return results
