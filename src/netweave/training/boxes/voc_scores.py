"""Average precision as Pascal VOC defines it: ``VOCevaldet.m`` and ``VOCap.m`` of its development kit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.ops.boxes import overlaps

if TYPE_CHECKING:
    from netweave.training.boxes.tables import Detections, Labels


@dataclass(frozen=True, slots=True)
class Judged:
    """The detections of a class, surest first, without those that do not count.

    Attributes:
        score: Of each.
        hit: Whether it is the first of a box that counts.
        num_labels: How many boxes there are that count.
    """

    score: np.ndarray
    hit: np.ndarray
    num_labels: int


def judge(labels: Labels, found: Detections, label: int, *, iou: float) -> Judged:
    """Return which detections of a class are right.

    Each detection, surest first, is held against the box that it overlaps most. It is right if it overlaps it
    enough and no surer one has been right there; on a box that is ignored it does not count at all.

    Args:
        labels: The labelled boxes.
        found: The detections.
        label: The class.
        iou: Least overlap, intersection over union.
    """
    of_class = labels.label == label
    rows = np.flatnonzero(found.label == label)
    rows = rows[np.argsort(-found.score[rows], kind="stable")]
    taken = np.zeros(len(labels.label), bool)
    hit, counts = np.zeros(len(rows), bool), np.ones(len(rows), bool)
    by_image = {image: np.flatnonzero(of_class & (labels.image == image)) for image in set(found.image[rows])}
    for number, row in enumerate(rows):
        own = by_image[found.image[row]]
        if not len(own):
            continue
        common = overlaps(found.corners[row], labels.corners[own])
        best = own[common.argmax()]
        if common.max() < iou:
            continue
        if labels.ignored[best]:
            counts[number] = False
        elif not taken[best]:
            hit[number] = taken[best] = True
    return Judged(found.score[rows][counts], hit[counts], int((of_class & ~labels.ignored).sum()))


def precision_recall(judged: Judged) -> tuple[np.ndarray, np.ndarray]:
    """Return precision and recall after each detection, surest first."""
    hits = np.cumsum(judged.hit)
    return hits / np.arange(1, len(hits) + 1), hits / max(1, judged.num_labels)


def average_precision(judged: Judged, *, eleven_points: bool) -> float:
    """Return the average precision; nan if the class has no box that counts.

    Args:
        judged: The detections of a class.
        eleven_points: The mean of the best precision at a recall of 0, 0.1 ... 1 or more (VOC 2007);
            otherwise the area under the best precision at each recall or more (VOC 2010 and later).
    """
    if not judged.num_labels:
        return float("nan")
    precision, recall = precision_recall(judged)
    if eleven_points:
        # the floats nearest to the tenths, so that 3 boxes of 10 reach 0.3
        best = [precision[recall >= tenth].max(initial=0.0) for tenth in np.arange(11) / 10]
        return float(np.mean(best))
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    steps = np.diff(recall, prepend=0.0)
    return float((steps * envelope).sum())
