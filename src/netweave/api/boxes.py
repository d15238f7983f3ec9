"""Boxes: those that a net finds, and detections scored against labelled ones."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.boxes import find_boxes as find_in_outputs
from netweave.boxes import read_detections, read_labels, score
from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from netweave.boxes import BoxScores, Detections
    from netweave.graph import Graph


def find_boxes(
    net: Graph, outputs: Mapping[str, np.ndarray], *, threshold: float = 0.25, overlap: float = 0.45
) -> Detections:
    """Return the boxes that the outputs of a net say, by image, class and score.

    Args:
        net: A net of Darknet with heads of YOLO v2 to v4, or one that ends in Caffe's DetectionOutput or
            MXNet's MultiBoxDetection.
        outputs: What ``run`` gave, by name.
        threshold: A box is of a class if its score is larger than this.
        overlap: Of YOLO, the largest overlap with a better box of its class that is allowed.

    Returns:
        Image, class, score and corners (x0, y0, x1, y1) of each box; corners are relative to the net's input.

    Raises:
        UsageError: No output of the net is boxes.
    """
    return find_in_outputs(net, outputs, threshold=threshold, overlap=overlap)


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
