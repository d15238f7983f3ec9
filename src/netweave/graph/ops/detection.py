"""Operators of detection: boxes, priors, proposals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, no_gradient, operator
from netweave.graph.ops.box_geometry import (
    base_anchors,
    centres_of_corners,
    corners_of_centres,
    decode_boxes,
    decode_pixel_boxes,
    decode_region_boxes,
    intersection_over_union,
)

# The formulas themselves are in ``box_geometry``.

_BLOCK = 256
"""Overlaps are computed for so many candidates at a time, which bounds the memory they take."""

LEAST_OVERLAP = 1e-6
"""A smaller overlap counts as none where priors are matched to ground-truth boxes."""


def overlaps(boxes: np.ndarray, others: np.ndarray, *, edge: float = 0.0) -> np.ndarray:
    """Return intersection over union; see ``intersection_over_union``.

    Args:
        boxes: (..., 4), broadcast against the others.
        others: (..., 4).
        edge: 1 for boxes of whole pixels, whose second corner belongs to them.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # the boxes of a net that diverges, or their areas
        ratios: np.ndarray = intersection_over_union(boxes, others, np, edge)
    return ratios


def best_first(scores: np.ndarray, *, above: float, most: int) -> np.ndarray:
    """Return which scores are above a threshold, best first, equal ones in their own order.

    Args:
        scores: One for each candidate; NaN is above nothing.
        above: Scores must be larger than this.
        most: At most so many; below 0, all.
    """
    candidates = np.flatnonzero(scores > above)
    order = candidates[np.argsort(-scores[candidates], kind="stable")]
    return order if most < 0 else order[:most]


def suppress(
    boxes: np.ndarray,
    order: np.ndarray,
    *,
    threshold: float,
    eta: float = 1.0,
    most: int | None = None,
    edge: float = 0.0,
) -> np.ndarray:
    """Return which boxes survive, best first: Caffe bbox_util.cpp, ApplyNMSFast.

    Args:
        boxes: (P, 4).
        order: Numbers of the candidates, best first.
        threshold: A box that overlaps a survivor by more than this is suppressed.
        eta: Below 1, the threshold shrinks by this factor with each survivor, while it is above 0.5.
        most: So many survive at most.
        edge: 1 for boxes of whole pixels.
    """
    kept = order[:0]
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        rivals = np.concatenate([kept, block])
        common = overlaps(boxes[block][:, None], boxes[rivals], edge=edge)
        stays = np.arange(len(rivals)) < len(kept)
        for row, own in enumerate(common):
            if (own[stays] <= threshold).all():
                stays[len(kept) + row] = True
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
        kept = rivals[stays]
        if most is not None and len(kept) >= most:
            return kept[:most]
    return kept


def pair_best(common: np.ndarray) -> np.ndarray:
    """Return which box each prior is paired with, -1 for none: the best pair of all left at a time.

    Each is in one pair at most; of equal pairs the one of the first prior counts, then of the first box.

    Args:
        common: Overlaps of priors and boxes of the truth, (P, G).
    """
    left = np.where(common > LEAST_OVERLAP, common, -1)
    paired = np.full(len(left), -1)
    for _ in range(left.shape[1]):
        prior, box = np.unravel_index(left.argmax(), left.shape)
        if left[prior, box] < 0:
            break
        paired[prior] = box
        left[prior], left[:, box] = -1, -1
    return paired


def encoded(boxes: np.ndarray, truth: np.ndarray, code_type: str) -> np.ndarray:
    """Return what a location must say of a prior to give a box, before variances: bbox_util.cpp, EncodeBBox.

    Args:
        boxes: The priors, (K, 4).
        truth: A box for each, (K, 4).
        code_type: ``CORNER``, ``CENTER_SIZE`` or ``CORNER_SIZE``.
    """
    size = boxes[:, 2:] - boxes[:, :2]
    if code_type == "CORNER":
        return np.asarray(truth - boxes)
    if code_type == "CORNER_SIZE":
        return np.asarray((truth - boxes) / np.tile(size, 2))
    moves = (truth[:, :2] + truth[:, 2:] - boxes[:, :2] - boxes[:, 2:]) / 2 / size
    return np.concatenate([moves, np.log((truth[:, 2:] - truth[:, :2]) / size)], axis=1)


# Decoding is arithmetic, and readers write it with standard operators; what stays, and in which order, has
# no form in ONNX: its NonMaxSuppression knows neither a number of candidates nor a shrinking threshold.

Arrays = Sequence[np.ndarray]
Shapes = Sequence[tuple[Dim, ...]]


def written(shape: Sequence[Dim]) -> str:
    """Return a shape in words."""
    return f"({', '.join(map(str, shape))})"


def _detection_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    boxes, scores = shapes
    if len(boxes) != 4 or len(scores) != 3 or boxes[3] != 4 or boxes[1] != scores[1]:
        raise ValueError(
            f"boxes {written(boxes)} and scores {written(scores)}, expected (N, P, 1 or C, 4) and (N, P, C)"
        )
    if boxes[2] not in {1, scores[2]}:
        raise ValueError(
            f"boxes for {boxes[2]} classes, expected 1 or {scores[2]}, the number of classes with scores"
        )
    return [(1, 1, ir.SymbolicDim(None), 7)]


_DEFAULTS = {
    "background_label_id": 0,
    "confidence_threshold": float(np.finfo(np.float32).min),
    "nms_threshold": 0.3,
    "top_k": -1,
    "keep_top_k": -1,
    "eta": 1.0,
}


@operator("DetectionOutput", shapes=_detection_shapes, gradient=no_gradient, defaults=_DEFAULTS)
def detection_output(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe detection_output_layer.cpp, ApplyNMSFast: one row for each detection, by image, class and score.

    Inputs: boxes (N, P, 1 or C, 4) and scores (N, P, C). Rows: image, class, score, x0, y0, x1, y1; without
    any detection one row for each image, of its number and -1. Attributes: ``background_label_id``,
    ``confidence_threshold``, ``nms_threshold``, ``eta``, ``top_k`` candidates of a class and ``keep_top_k``
    detections of an image (-1: all). Where scores are equal at the border of ``keep_top_k``, Caffe's sort
    leaves open which stays; here it is the one of the lower class, and then the earlier one.
    """
    boxes, scores = inputs
    attributes = {**_DEFAULTS, **attributes}
    of_images = [_of_image_detection(b, s, attributes) for b, s in zip(boxes, scores, strict=True)]
    rows = [
        (image, label, scores[image, box, label], *boxes[image, box, min(label, boxes.shape[2] - 1)])
        for image, pairs in enumerate(of_images)
        for label, box in pairs
    ]
    rows = rows or [(image, *[-1] * 6) for image in range(len(scores))]
    return [np.array(rows, scores.dtype).reshape(1, 1, -1, 7)]


def _of_image_detection(
    boxes: np.ndarray, scores: np.ndarray, attributes: Attributes
) -> list[tuple[int, int]]:
    """Return the detections of an image as (class, number of the box), by class and score."""
    pairs = []
    for label in range(scores.shape[1]):
        if label == attributes["background_label_id"]:
            continue
        above, most = attributes["confidence_threshold"], attributes["top_k"]
        order = best_first(scores[:, label], above=above, most=most)
        own = boxes[:, min(label, boxes.shape[1] - 1)]
        kept = suppress(own, order, threshold=attributes["nms_threshold"], eta=attributes["eta"])
        pairs += [(label, int(box)) for box in kept]
    most = attributes["keep_top_k"]
    if 0 <= most < len(pairs):
        order = np.argsort([-scores[box, label] for label, box in pairs], kind="stable")
        pairs = [pairs[index] for index in sorted(order[:most])]
    return pairs


# N images, A anchors, C classes, of which 0 is the background, M boxes of the labels at most.

_VARIANCES = (0.1, 0.1, 0.2, 0.2)

TARGET_DEFAULTS = {
    "overlap_threshold": 0.5,
    "ignore_label": -1.0,
    "negative_mining_ratio": -1.0,
    "negative_mining_thresh": 0.5,
    "variances": _VARIANCES,
}

DETECTION_DEFAULTS = {
    "clip": 1,
    "threshold": 0.01,
    "nms_threshold": 0.5,
    "force_suppress": 0,
    "variances": _VARIANCES,
    "nms_topk": -1,
}

NMS_DEFAULTS = {
    "overlap_thresh": 0.5,
    "valid_thresh": 0.0,
    "topk": -1,
    "coord_start": 2,
    "score_index": 1,
    "id_index": -1,
    "background_id": -1,
    "force_suppress": 0,
    "in_format": "corner",
    "out_format": "corner",
}


def _target_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    anchors, labels, scores = shapes
    if len(anchors) != 3 or anchors[2] != 4 or len(labels) != 3 or len(scores) != 3:
        raise ValueError("expected anchors (1, A, 4), labels (N, M, 5 or more) and predictions (N, C, A)")
    size = 4 * anchors[1] if isinstance(anchors[1], int) else anchors[1]
    return [(labels[0], size), (labels[0], size), (labels[0], anchors[1])]


@operator("MultiBoxTarget", shapes=_target_shapes, gradient=no_gradient, defaults=TARGET_DEFAULTS)
def multibox_target(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet multibox_target.cc: what locations should be, which of them count, what classes should be.

    Inputs: anchors (1, A, 4), labels (N, M, 5 or more) with rows of class (-1 from the last one on) and
    corners, and predictions of classes (N, C, A), which say what negatives are mined. Attributes as in
    ``TARGET_DEFAULTS``.
    """
    s = {**TARGET_DEFAULTS, **attributes}
    anchors, labels, scores = inputs[0].reshape(-1, 4), inputs[1], inputs[2]
    targets = np.zeros((len(labels), len(anchors), 4), scores.dtype)
    counts = np.zeros_like(targets)
    classes = np.full(targets.shape[:2], s["ignore_label"], scores.dtype)
    for image, (rows, predicted) in enumerate(zip(labels, scores, strict=True)):
        ends = np.flatnonzero(rows[:, 0] == -1)
        rows = rows[: ends[0]] if len(ends) else rows
        if not len(rows):
            continue
        matched, best = _matched(overlaps(anchors[:, None], rows[:, 1:5]), s)
        hits = matched >= 0
        own = rows[matched[hits]]
        targets[image, hits] = encoded(anchors[hits], own[:, 1:5], "CENTER_SIZE") / np.array(s["variances"])
        counts[image, hits] = 1
        classes[image, _negatives(predicted, hits, best, s)] = 0
        classes[image, hits] = own[:, 0] + 1
    flat = (len(labels), -1)
    return [targets.reshape(flat), counts.reshape(flat), classes]


def _matched(common: np.ndarray, s: Attributes) -> tuple[np.ndarray, np.ndarray]:
    """Return the label of each anchor (-1 for none), and its largest overlap with any."""
    matched, best = pair_best(common), common.max(axis=1)
    if s["overlap_threshold"] > 0:
        free = (matched < 0) & (best > best.dtype.type(s["overlap_threshold"]))
        matched[free] = common[free].argmax(axis=1)
    return matched, best


def _negatives(scores: np.ndarray, hits: np.ndarray, best: np.ndarray, s: Attributes) -> np.ndarray:
    """Return the anchors that count as background: all others, or those that look least like it."""
    if s["negative_mining_ratio"] <= 0:
        return np.flatnonzero(~hits)
    num_hits = int(hits.sum())
    count = min(int(num_hits * np.float32(s["negative_mining_ratio"])), len(hits) - num_hits)
    able = np.flatnonzero(~hits & (best < best.dtype.type(s["negative_mining_thresh"])))
    if len(able) < count:
        raise RunError(
            f"MultiBoxTarget: {count} negatives are needed, but only {len(able)} anchors overlap all boxes "
            f"by less than 'negative_mining_thresh' ({s['negative_mining_thresh']:g}); MXNet also raises "
            "an error"
        )
    e = np.exp(scores - scores.max(axis=0))
    background = (e[0] / e.sum(axis=0))[able]
    return able[np.argsort(background, kind="stable")[:count]]


def _found_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    scores, locations, anchors = shapes
    if len(scores) != 3 or len(locations) != 2 or len(anchors) != 3 or anchors[2] != 4:
        raise ValueError("expected probabilities (N, C, A), locations (N, A * 4) and anchors (1, A, 4)")
    return [(scores[0], anchors[1], 6)]


@operator("MultiBoxDetection", shapes=_found_shapes, gradient=no_gradient, defaults=DETECTION_DEFAULTS)
def multibox_detection(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet multibox_detection.cc: rows of class, score, corners, best first; class -1 where there is none.

    Inputs: probabilities (N, C, A), locations (N, A * 4), anchors (1, A, 4). An anchor has one class, its
    likeliest but the background. A box goes that overlaps a better one of its class (of any, with
    ``force_suppress``) by ``nms_threshold`` or more. Attributes as in ``DETECTION_DEFAULTS``.
    """
    s = {**DETECTION_DEFAULTS, **attributes}
    probabilities, locations, anchors = inputs[0], inputs[1], inputs[2].reshape(-1, 4)
    detections = np.full((len(probabilities), len(anchors), 6), -1, probabilities.dtype)
    for image, (p, deltas) in enumerate(zip(probabilities, locations, strict=True)):
        boxes = decode_boxes(anchors, deltas.reshape(-1, 4) * np.array(s["variances"], p.dtype), np)
        boxes = np.clip(boxes, 0, 1) if s["clip"] else boxes
        label, score = p[1:].argmax(axis=0), p[1:].max(axis=0, initial=-1)
        likely = np.flatnonzero((score > -1) & (score >= p.dtype.type(s["threshold"])))
        rows = np.concatenate([label[likely, None], score[likely, None], boxes[likely]], axis=1)
        detections[image, : len(rows)] = _suppressed(rows, s) if 0 < s["nms_threshold"] <= 1 else rows
    return [detections]


def _suppressed(rows: np.ndarray, s: Attributes) -> np.ndarray:
    """Return rows best first, those that go with class -1."""
    order = np.argsort(-rows[:, 1], kind="stable")
    count = min(s["nms_topk"], len(rows)) if s["nms_topk"] > 0 else len(rows)
    rows = np.concatenate([rows[order[:count]], rows[count:]])
    rows[count:, 0] = -1
    threshold = rows.dtype.type(s["nms_threshold"])
    for number in range(count):
        if rows[number, 0] < 0:
            continue
        later = rows[number + 1 : count]
        rivals = (later[:, 0] == rows[number, 0]) | bool(s["force_suppress"])
        later[rivals & (overlaps(rows[number, 2:], later[:, 2:]) >= threshold), 0] = -1
    return rows


def _nms_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    if len(shapes[0]) < 2:
        raise ValueError(f"an input with {len(shapes[0])} axes, expected boxes on the last two")
    return [shapes[0]]


def _nms_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Arrays:
    """Return the gradient of each row for the row that it was; the format of corners has no effect."""
    s = {**NMS_DEFAULTS, **attributes}
    tables = inputs[0].reshape(-1, *inputs[0].shape[-2:])
    to_tables = np.zeros_like(tables)
    for table, above, to_rows in zip(tables, gradients[0].reshape(tables.shape), to_tables, strict=True):
        kept = _kept(table, s)
        to_rows[kept] = above[: len(kept)]
    return [to_tables.reshape(inputs[0].shape)]


@operator("BoxNMS", shapes=_nms_shapes, gradient=_nms_gradient, defaults=NMS_DEFAULTS)
def box_nms(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet bounding_box-inl.h, BoxNMS: rows that stay, best first, and rows of -1 behind them.

    Input: (..., boxes, columns). Attributes as in ``NMS_DEFAULTS``.
    """
    s = {**NMS_DEFAULTS, **attributes}
    tables = inputs[0].reshape(-1, *inputs[0].shape[-2:])
    remaining = np.full_like(tables, -1)
    for table, out in zip(tables, remaining, strict=True):
        rows = _converted(table[_kept(table, s)], s)
        out[: len(rows)] = rows
    return [remaining.reshape(inputs[0].shape)]


def _kept(table: np.ndarray, s: Attributes) -> np.ndarray:
    """Return which rows stay, best first."""
    by_class = s["id_index"] >= 0
    scores = table[:, s["score_index"]]
    valid = scores > table.dtype.type(s["valid_thresh"])
    if by_class:
        valid &= table[:, s["id_index"]] != s["background_id"]
    order = np.flatnonzero(valid)
    order = order[np.argsort(-scores[order], kind="stable")]
    order = order[: s["topk"]] if s["topk"] > 0 else order
    boxes = table[order, s["coord_start"] : s["coord_start"] + 4]
    boxes = corners_of_centres(boxes, np) if s["in_format"] == "center" else boxes
    stays = np.ones(len(order), bool)
    threshold = table.dtype.type(s["overlap_thresh"])
    classes = table[order, s["id_index"]] if by_class and not s["force_suppress"] else None
    for number in range(len(order)):
        if not stays[number]:
            continue
        later = slice(number + 1, None)
        rivals = overlaps(boxes[number], boxes[later]) > threshold
        if classes is not None:
            rivals &= classes[later] == classes[number]
        stays[later] &= ~rivals
    return order[stays]


def _converted(rows: np.ndarray, s: Attributes) -> np.ndarray:
    """Return rows with their boxes in the format that is asked for."""
    if s["in_format"] == s["out_format"]:
        return rows
    own = slice(s["coord_start"], s["coord_start"] + 4)
    old, converted = rows[:, own], rows.copy()
    new = corners_of_centres(old, np) if s["in_format"] == "center" else centres_of_corners(old, np)
    converted[:, own] = np.where(old[:, :1] < 0, old, new)  # MXNet takes these for no boxes
    return converted


# N images, A anchors of a cell, H by W cells. Boxes are in pixels, and both corners belong to them.

PROPOSAL_DEFAULTS = {
    "rpn_pre_nms_top_n": 6000,
    "rpn_post_nms_top_n": 300,
    "threshold": 0.7,
    "rpn_min_size": 16,
    "scales": (4.0, 8.0, 16.0, 32.0),
    "ratios": (0.5, 1.0, 2.0),
    "feature_stride": 16,
    "iou_loss": 0,
}


def _shapes_proposals(shapes: Shapes, attributes: Attributes) -> Shapes:
    scores, deltas, info = shapes
    s = {**PROPOSAL_DEFAULTS, **attributes}
    num_anchors = len(s["scales"]) * len(s["ratios"])
    if len(scores) != 4 or len(deltas) != 4 or len(info) != 2 or info[1] != 3:
        raise ValueError("expected probabilities (N, 2A, H, W), locations (N, 4A, H, W) and sizes (N, 3)")
    if scores[1] != 2 * num_anchors or deltas[1] != 4 * num_anchors:
        raise ValueError(
            f"{scores[1]} probabilities and {deltas[1]} locations for each cell, expected {2 * num_anchors} "
            f"and {4 * num_anchors} for {len(s['ratios'])} ratios and {len(s['scales'])} scales"
        )
    sizes = [scores[0], scores[2], scores[3]]
    known = [size for size in sizes if isinstance(size, int)]
    count: Dim = ir.SymbolicDim(None)
    if len(known) == 3:
        count = known[0] * _limits(known[1] * known[2] * num_anchors, s)[1]
    return [(count, 5), (count, 1)]


def _limits(count: int, s: Attributes) -> tuple[int, int]:
    """Return how many of the best boxes are looked at, and how many regions there are."""
    first = min(s["rpn_pre_nms_top_n"], count) if s["rpn_pre_nms_top_n"] > 0 else count
    return first, min(s["rpn_post_nms_top_n"], first)


@operator("Proposal", shapes=_shapes_proposals, gradient=no_gradient, defaults=PROPOSAL_DEFAULTS)
def proposal(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet proposal.cc, multi_proposal.cc: rows of image and corners, best first, and their scores.

    Inputs: probabilities (N, 2A, H, W), the second half of which counts, locations (N, 4A, H, W), and height,
    width and scale of the images (N, 3). Where fewer regions stay than are asked for, they are repeated.
    Attributes as in ``PROPOSAL_DEFAULTS``.
    """
    s = {**PROPOSAL_DEFAULTS, **attributes}
    scores, deltas, info = inputs
    anchors = np.array(base_anchors(s["feature_stride"], s["ratios"], s["scales"]), scores.dtype)
    proposals = []
    for image in range(len(scores)):
        own = np.moveaxis(scores[image, len(anchors) :], 0, -1)
        moves = np.moveaxis(deltas[image], 0, -1).reshape(*own.shape, 4)
        rows = _of_image_proposals(own, moves, anchors, info[image], s)
        proposals.append(np.concatenate([np.full((len(rows), 1), image), rows], axis=1))
    rows = np.concatenate(proposals).astype(scores.dtype)
    return [rows[:, :5], rows[:, 5:]]


def _of_image_proposals(
    scores: np.ndarray, deltas: np.ndarray, anchors: np.ndarray, info: np.ndarray, s: dict[str, Any]
) -> np.ndarray:
    """Return the regions of an image as rows of corners and score.

    Args:
        scores: (H, W, A).
        deltas: (H, W, A, 4).
        anchors: Of the first cell, (A, 4).
        info: Height, width and scale.
        s: Settings.
    """
    height, width, scale = info
    stride = s["feature_stride"]
    rows, columns = np.indices(scores.shape[:2]).astype(scores.dtype) * stride
    shifts = np.stack([columns, rows, columns, rows], axis=-1)[:, :, None]
    boxes = anchors + shifts + deltas if s["iou_loss"] else decode_pixel_boxes(anchors + shifts, deltas, np)
    limits = np.array([width - 1, height - 1] * 2, scores.dtype)
    boxes = np.maximum(np.minimum(boxes, limits), 0).reshape(-1, 4)
    scores = scores.copy()
    scores[int(height / stride) :], scores[:, int(width / stride) :] = -1, -1  # cells of the padding
    flat = scores.reshape(-1)
    least = scale * s["rpn_min_size"]
    small = (boxes[:, 2:] - boxes[:, :2] + 1 < least).any(axis=1)
    boxes[small] += np.array([-1, -1, 1, 1], scores.dtype) * (least / 2)
    flat = np.where(small, -1, flat)
    first, most = _limits(len(flat), s)
    order = np.argsort(-flat, kind="stable")[:first]
    kept = suppress(boxes, order, threshold=s["threshold"], most=most, edge=1.0)
    chosen = kept[np.arange(most) % len(kept)]
    return np.concatenate([boxes[chosen], flat[chosen, None]], axis=1)


# Unlike MXNet's (see ``proposals``), boxes that are too small are dropped, the far corner of a box is a
# pixel further, and there are as many regions as stay: no row is repeated.

REGION_PROPOSAL_DEFAULTS = {
    "feature_stride": 16,
    "scales": (8.0, 16.0, 32.0),
    "ratios": (0.5, 1.0, 2.0),
    "pre_nms_top_n": 6000,
    "post_nms_top_n": 300,
    "nms_threshold": 0.7,
    "min_size": 16.0,
}

BASE_SIZE = 16
"""Side of the box that ratios and scales change, whatever the stride is."""


def _shapes_region_proposals(
    shapes: Sequence[tuple[Dim, ...]], attributes: Attributes
) -> Sequence[tuple[Dim, ...]]:
    scores, deltas, info = shapes
    s = {**REGION_PROPOSAL_DEFAULTS, **attributes}
    num_anchors = len(s["scales"]) * len(s["ratios"])
    if len(scores) != 4 or len(deltas) != 4 or len(info) != 2:
        raise ValueError("expected probabilities (1, 2A, H, W), locations (1, 4A, H, W) and sizes (1, 3)")
    if scores[1] != 2 * num_anchors or deltas[1] != 4 * num_anchors:
        raise ValueError(
            f"{scores[1]} probabilities and {deltas[1]} locations for each cell, expected {2 * num_anchors} "
            f"and {4 * num_anchors} for {len(s['ratios'])} ratios and {len(s['scales'])} scales"
        )
    count = ir.SymbolicDim(None)
    return [(count, 5), (count, 1)]


@operator(
    "RegionProposal", shapes=_shapes_region_proposals, gradient=no_gradient, defaults=REGION_PROPOSAL_DEFAULTS
)
def region_proposal(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Faster R-CNN proposal_layer.py: rows of image 0 and corners, best first, and their scores.

    Inputs: probabilities (1, 2A, H, W), the second half of which counts, locations (1, 4A, H, W), and height,
    width and scale of the image (1, 3). Attributes as in ``REGION_PROPOSAL_DEFAULTS``.
    """
    s = {**REGION_PROPOSAL_DEFAULTS, **attributes}
    scores, deltas, info = inputs
    anchors = np.array(base_anchors(BASE_SIZE, s["ratios"], s["scales"]), scores.dtype)
    own = np.moveaxis(scores[0, len(anchors) :], 0, -1)
    moves = np.moveaxis(deltas[0], 0, -1).reshape(*own.shape, 4)
    rows, columns = np.indices(own.shape[:2]).astype(scores.dtype) * s["feature_stride"]
    shifts = np.stack([columns, rows, columns, rows], axis=-1)[:, :, None]
    height, width, scale = info[0, :3]
    limits = np.array([width - 1, height - 1] * 2, scores.dtype)
    boxes = np.maximum(np.minimum(decode_region_boxes(anchors + shifts, moves, np), limits), 0).reshape(-1, 4)
    large = (boxes[:, 2:] - boxes[:, :2] + 1 >= s["min_size"] * scale).all(axis=1)
    boxes, flat = boxes[large], own.reshape(-1)[large]
    order = np.argsort(-flat, kind="stable")[: s["pre_nms_top_n"] if s["pre_nms_top_n"] > 0 else None]
    most = s["post_nms_top_n"] if s["post_nms_top_n"] > 0 else len(order)
    chosen = suppress(boxes, order, threshold=s["nms_threshold"], most=most, edge=1.0)
    images = np.zeros((len(chosen), 1), scores.dtype)
    return [np.concatenate([images, boxes[chosen]], axis=1), flat[chosen, None]]
