"""The table of scores: precision, recall and average precision of each class, and their means."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.training.boxes.coco_scores import coco_precision
from netweave.training.boxes.voc_scores import average_precision, judge, precision_recall

if TYPE_CHECKING:
    from netweave.training.boxes.tables import Detections, Labels


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Scores of one class, or means over the classes that have boxes; nan where there is nothing to score.

    Attributes:
        name: Of the class.
        num_labels: Boxes that count.
        num_found: Detections, at any score, that count.
        precision: Share of the detections, from the least score on, that are right.
        recall: Share of the boxes that these find.
        ap_11: Average precision by eleven points of recall (VOC 2007).
        ap_voc: Average precision as the area under the curve (VOC 2010 and later).
        ap_coco: Average precision over overlaps from 0.5 to 0.95 (COCO).
        ap_50: COCO's at an overlap of 0.5.
        ap_75: COCO's at an overlap of 0.75.
    """

    name: str
    num_labels: int
    num_found: int
    precision: float
    recall: float
    ap_11: float
    ap_voc: float
    ap_coco: float
    ap_50: float
    ap_75: float


@dataclass(frozen=True, slots=True)
class BoxScores:
    """Scores of detections.

    Attributes:
        classes: Of each class, in the order of the labels.
        mean: The means over the classes that have boxes; the counts are sums.
        iou: Least overlap of VOC's columns and of precision and recall.
        least_score: Of the detections that precision and recall are of.
        num_images: With labels, or without a box in them.
    """

    classes: tuple[ClassScores, ...]
    mean: ClassScores
    iou: float
    least_score: float
    num_images: int

    def to_json(self) -> dict[str, Any]:
        """Return the scores as JSON values; null where there is nothing to score."""
        rows = [_as_json(row) for row in self.classes]
        return {**asdict(self), "classes": rows, "mean": _as_json(self.mean)}


def _as_json(row: ClassScores) -> dict[str, Any]:
    found = asdict(row)
    return {name: None if name in _MEANS and isnan(value) else value for name, value in found.items()}


def score(labels: Labels, found: Detections, *, iou: float, least_score: float) -> BoxScores:
    """Score detections.

    Args:
        labels: The labelled boxes.
        found: The detections.
        iou: Least overlap, intersection over union, with which a detection is right.
        least_score: Detections below it do not count in precision and recall.

    Raises:
        UsageError: pycocotools is not installed.
    """
    coco = coco_precision(labels, found)
    rows = []
    for number, name in enumerate(labels.classes):
        judged = judge(labels, found, number, iou=iou)
        shown = int((judged.score >= least_score).sum())
        precision, recall = precision_recall(judged)
        rows.append(
            ClassScores(
                name=name,
                num_labels=judged.num_labels,
                num_found=len(judged.score),
                precision=float(precision[shown - 1]) if shown else float("nan"),
                recall=_recall(recall, shown, judged.num_labels),
                ap_11=average_precision(judged, eleven_points=True),
                ap_voc=average_precision(judged, eleven_points=False),
                ap_coco=float(coco.mean[number]),
                ap_50=float(coco.at_50[number]),
                ap_75=float(coco.at_75[number]),
            )
        )
    return BoxScores(tuple(rows), _mean(rows), iou, least_score, len(labels.images))


def _recall(recall: np.ndarray, shown: int, num_labels: int) -> float:
    if not num_labels:
        return float("nan")
    return float(recall[shown - 1]) if shown else 0.0


_MEANS = ("precision", "recall", "ap_11", "ap_voc", "ap_coco", "ap_50", "ap_75")


def _mean(rows: list[ClassScores]) -> ClassScores:
    """Return the means over classes with boxes; a precision of nothing counts in none."""
    scored = [row for row in rows if row.num_labels]
    means = {}
    for name in _MEANS:
        values = np.array([getattr(row, name) for row in scored], np.float64)
        values = values[~np.isnan(values)]
        means[name] = float(values.mean()) if len(values) else float("nan")
    return ClassScores(
        name="mean",
        num_labels=sum(row.num_labels for row in rows),
        num_found=sum(row.num_found for row in rows),
        **means,
    )
