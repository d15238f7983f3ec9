"""Boxes as corners (x0, y0, x1, y1), and what the sources of detection nets do with them.

A box is four floats in the last axis. Comparisons are written as C++ compiles ``std::max`` and ``std::min``,
so that a box of NaN counts for what it counts in the sources.
"""

from __future__ import annotations

import numpy as np

_BLOCK = 256
"""Overlaps are found for so many candidates at a time."""

LEAST_OVERLAP = 1e-6
"""Boxes that overlap by no more do not overlap, where priors are matched to boxes of the truth."""


def larger(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``std::max(a, b)``: ``a`` unless it is less; NumPy's hands on every NaN."""
    return np.where(a < b, b, a)


def smaller(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``std::min(a, b)``: ``a`` unless ``b`` is less."""
    return np.where(b < a, b, a)


def areas(boxes: np.ndarray) -> np.ndarray:
    """Return the area of each box, 0 where the second corner lies before the first."""
    width, height = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
    return np.where((width < 0) | (height < 0), 0, width * height)


def overlaps(boxes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return intersection over union: Caffe bbox_util.cpp, JaccardOverlap of normalised boxes.

    Args:
        boxes: (..., 4), broadcast against the others.
        others: (..., 4).
    """
    width, height = (
        smaller(boxes[..., axis + 2], others[..., axis + 2]) - larger(boxes[..., axis], others[..., axis])
        for axis in (0, 1)
    )
    common = width * height
    union = areas(boxes) + areas(others) - common
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where((width > 0) & (height > 0), common / union, 0)


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


def suppress(boxes: np.ndarray, order: np.ndarray, *, threshold: float, eta: float = 1.0) -> np.ndarray:
    """Return which boxes stay, best first: Caffe bbox_util.cpp, ApplyNMSFast.

    Args:
        boxes: (P, 4).
        order: Numbers of the candidates, best first.
        threshold: A box goes that overlaps one that stayed by more than this.
        eta: Below 1, the threshold shrinks by this factor with each box that stays, while it is above 0.5.
    """
    kept = order[:0]
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        rivals = np.concatenate([kept, block])
        found = overlaps(boxes[block][:, None], boxes[rivals])
        stays = np.arange(len(rivals)) < len(kept)
        for row, common in enumerate(found):
            if (common[stays] <= threshold).all():
                stays[len(kept) + row] = True
                if eta < 1 and threshold > 0.5:
                    threshold *= eta
        kept = rivals[stays]
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


def decoded(boxes: np.ndarray, deltas: np.ndarray) -> np.ndarray:
    """Return the boxes that locations by ``CENTER_SIZE`` say, (K, 4), with variances already in them."""
    size = boxes[:, 2:] - boxes[:, :2]
    centre = deltas[:, :2] * size + (boxes[:, :2] + boxes[:, 2:]) / 2
    half = np.exp(deltas[:, 2:]) * size / 2
    return np.concatenate([centre - half, centre + half], axis=1)
