"""MXNet's SSD: which anchors stand for which boxes of the labels, and which of the boxes stay.

N images, A anchors, C classes, of which 0 is the background, M boxes of the labels at most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, no_gradient, operator
from netweave.graph.ops.box_geometry import centres_of_corners, corners_of_centres, decode_boxes
from netweave.graph.ops.boxes import encoded, overlaps, pair_best

Arrays = Sequence[np.ndarray]
Shapes = Sequence[tuple[Dim, ...]]

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
    found = np.full((len(probabilities), len(anchors), 6), -1, probabilities.dtype)
    for image, (p, deltas) in enumerate(zip(probabilities, locations, strict=True)):
        boxes = decode_boxes(anchors, deltas.reshape(-1, 4) * np.array(s["variances"], p.dtype), np)
        boxes = np.clip(boxes, 0, 1) if s["clip"] else boxes
        label, score = p[1:].argmax(axis=0), p[1:].max(axis=0, initial=-1)
        likely = np.flatnonzero((score > -1) & (score >= p.dtype.type(s["threshold"])))
        rows = np.concatenate([label[likely, None], score[likely, None], boxes[likely]], axis=1)
        found[image, : len(rows)] = _suppressed(rows, s) if 0 < s["nms_threshold"] <= 1 else rows
    return [found]


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
    found = np.zeros_like(tables)
    for table, above, to_rows in zip(tables, gradients[0].reshape(tables.shape), found, strict=True):
        kept = _kept(table, s)
        to_rows[kept] = above[: len(kept)]
    return [found.reshape(inputs[0].shape)]


@operator("BoxNMS", shapes=_nms_shapes, gradient=_nms_gradient, defaults=NMS_DEFAULTS)
def box_nms(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet bounding_box-inl.h, BoxNMS: rows that stay, best first, and rows of -1 behind them.

    Input: (..., boxes, columns). Attributes as in ``NMS_DEFAULTS``.
    """
    s = {**NMS_DEFAULTS, **attributes}
    tables = inputs[0].reshape(-1, *inputs[0].shape[-2:])
    found = np.full_like(tables, -1)
    for table, out in zip(tables, found, strict=True):
        rows = _converted(table[_kept(table, s)], s)
        out[: len(rows)] = rows
    return [found.reshape(inputs[0].shape)]


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
    old, found = rows[:, own], rows.copy()
    new = corners_of_centres(old, np) if s["in_format"] == "center" else centres_of_corners(old, np)
    found[:, own] = np.where(old[:, :1] < 0, old, new)  # MXNet takes these for no boxes
    return found
