"""Boxes as corners (x0, y0, x1, y1) in NumPy: which of them suppress others, and which stand for which.

The formulas themselves are in ``box_geometry``.
"""

from __future__ import annotations

import numpy as np

from netweave.graph.ops.box_geometry import intersection_over_union

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
    with np.errstate(invalid="ignore"):  # a box may be infinite where its deltas are
        found: np.ndarray = intersection_over_union(boxes, others, np, edge)
    return found


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
