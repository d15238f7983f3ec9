"""Regions of interest from the heads of a region proposal network, as MXNet chooses them.

N images, A anchors of a cell, H by W cells. Boxes are in pixels, and both corners belong to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.graph.operators import Attributes, Dim, no_gradient, operator
from netweave.graph.ops.box_geometry import base_anchors, decode_pixel_boxes
from netweave.graph.ops.boxes import suppress

Arrays = Sequence[np.ndarray]
Shapes = Sequence[tuple[Dim, ...]]

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


def _shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
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


@operator("Proposal", shapes=_shapes, gradient=no_gradient, defaults=PROPOSAL_DEFAULTS)
def proposal(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet proposal.cc, multi_proposal.cc: rows of image and corners, best first, and their scores.

    Inputs: probabilities (N, 2A, H, W), the second half of which counts, locations (N, 4A, H, W), and height,
    width and scale of the images (N, 3). Where fewer regions stay than are asked for, they are repeated.
    Attributes as in ``PROPOSAL_DEFAULTS``.
    """
    s = {**PROPOSAL_DEFAULTS, **attributes}
    scores, deltas, info = inputs
    anchors = np.array(base_anchors(s["feature_stride"], s["ratios"], s["scales"]), scores.dtype)
    found = []
    for image in range(len(scores)):
        own = np.moveaxis(scores[image, len(anchors) :], 0, -1)
        moves = np.moveaxis(deltas[image], 0, -1).reshape(*own.shape, 4)
        rows = _of_image(own, moves, anchors, info[image], s)
        found.append(np.concatenate([np.full((len(rows), 1), image), rows], axis=1))
    rows = np.concatenate(found).astype(scores.dtype)
    return [rows[:, :5], rows[:, 5:]]


def _of_image(
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
