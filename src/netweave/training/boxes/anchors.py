"""Anchors for a detector: the sizes that boxes have, by k-means with overlaps instead of distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netweave.errors import UsageError
from netweave.graph.ops.box_geometry import intersection_over_union

MOST_ROUNDS = 1000
"""Rounds after which clustering ends in any case; it ends of itself as a rule after some tens."""

RESTARTS = 10
"""So often clustering begins anew; the best end counts."""


@dataclass(frozen=True, slots=True)
class Anchors:
    """Sizes of boxes.

    Attributes:
        sizes: Width and height of each relative to the image, smallest area first, (K, 2).
        mean_iou: Mean overlap of a box with the anchor that it overlaps most, about the same centre.
        num_boxes: How many boxes they are of.
    """

    sizes: np.ndarray
    mean_iou: float
    num_boxes: int


def cluster(sizes: np.ndarray, count: int, *, seed: int = 0) -> Anchors:
    """Return the anchors that boxes overlap most: k-means, where 1 - IoU is the distance.

    The first centres are drawn as k-means++ draws them; a centre is the median of its boxes' sizes.

    Args:
        sizes: Widths and heights, (number, 2).
        count: How many anchors.
        seed: Of what is drawn.

    Raises:
        UsageError: There are fewer different boxes than anchors.
    """
    different = len(np.unique(sizes, axis=0))
    if count < 1 or different < count:
        raise UsageError(f"cannot find {count} anchors: boxes have {different} different sizes")
    generator = np.random.default_rng(seed)
    ends = [_rounds(sizes, _first(sizes, count, generator)) for _ in range(RESTARTS)]
    best = max(ends, key=lambda centres: mean_overlap(sizes, centres))
    best = best[np.argsort(best.prod(axis=1), kind="stable")]
    return Anchors(best, mean_overlap(sizes, best), len(sizes))


def shape_overlaps(sizes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the overlap of each size with each of the others, about the same centre."""
    boxes, other_boxes = (np.concatenate([-ends, ends], axis=1) / 2 for ends in (sizes, others))
    return np.asarray(intersection_over_union(boxes[:, None], other_boxes[None], np))


def mean_overlap(sizes: np.ndarray, anchors: np.ndarray) -> float:
    """Return the mean overlap of each size with its best anchor."""
    return float(shape_overlaps(sizes, anchors).max(axis=1).mean())


def _first(sizes: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Draw first centres, each far from those before."""
    centres = sizes[[int(generator.integers(len(sizes)))]]
    while len(centres) < count:
        squares = (1.0 - shape_overlaps(sizes, centres).max(axis=1)) ** 2
        chosen = generator.choice(len(sizes), p=squares / squares.sum())
        centres = np.concatenate([centres, sizes[[chosen]]])
    return centres


def _rounds(sizes: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the centres on which the rounds settle; a cluster that has become empty keeps its centre."""
    nearest = None
    for _ in range(MOST_ROUNDS):
        moved = shape_overlaps(sizes, centres).argmax(axis=1)
        if nearest is not None and (moved == nearest).all():
            break
        nearest = moved
        centres = np.stack(
            [
                np.median(sizes[nearest == number], axis=0) if (nearest == number).any() else centre
                for number, centre in enumerate(centres)
            ]
        )
    return centres
