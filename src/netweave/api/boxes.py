"""Detections scored against labelled boxes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.boxes import read_detections, read_labels, score
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.boxes import BoxScores


def evaluate_boxes(
    labels: str | Path, detections: str | Path, *, iou: float = 0.5, least_score: float = 0.5
) -> BoxScores:
    """Score detections against labelled boxes: precision, recall and average precision of each class.

    Args:
        labels: COCO's JSON of labelled boxes, or a folder of Pascal VOC's XML files.
        detections: COCO's JSON of results; or a text of VOC's, named after its class, or a folder of them.
        iou: Least overlap, intersection over union, with which a detection is right; COCO's own columns have
            theirs.
        least_score: Detections below it do not count in precision and recall; average precisions know no
            such limit.

    Raises:
        SourceError: A file cannot be read, or names images or classes that have no labels.
        UsageError: A limit is out of range, or pycocotools is not installed.
    """
    if not 0 < iou <= 1:
        raise UsageError(f"an overlap of {iou:g}, expected a number above 0, at most 1")
    truth, ids = read_labels(Path(labels))
    found = read_detections(Path(detections), truth, ids)
    return score(truth, found, iou=iou, least_score=least_score)
