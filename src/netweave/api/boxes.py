"""Bounding boxes: extract them from a net's outputs, and score detections against labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.api.arguments import check_file, check_graph
from netweave.errors import UsageError
from netweave.training.boxes import find_boxes as find_in_outputs
from netweave.training.boxes import read_detections, read_labels, score

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy as np

    from netweave.graph import Graph
    from netweave.training.boxes import BoxScores, Detections


def find_boxes(
    net: Graph, outputs: Mapping[str, np.ndarray], *, threshold: float = 0.25, overlap: float = 0.45
) -> Detections:
    """Return the boxes in the outputs of a net, by image, class and score.

    Args:
        net: A Darknet net with YOLO v2 to v4 heads, or a net that ends in Caffe's DetectionOutput or
            MXNet's MultiBoxDetection.
        outputs: The outputs of ``run``, by name.
        threshold: A box belongs to a class if its score for the class is above this.
        overlap: For YOLO, the maximum overlap (IoU) with a better box of the same class.

    Returns:
        Image, class, score and corners (x0, y0, x1, y1) of each box; corners are relative to the net's input.

    Raises:
        UsageError: No output of the net contains boxes.
    """
    check_graph(net)
    return find_in_outputs(net, outputs, threshold=threshold, overlap=overlap)


def evaluate_boxes(
    labels: str | Path, detections: str | Path, *, iou: float = 0.5, least_score: float = 0.5
) -> BoxScores:
    """Score detections against labelled boxes: precision, recall and average precision per class.

    Args:
        labels: A COCO JSON file of labelled boxes, or a folder of Pascal VOC XML files.
        detections: A COCO results JSON, a VOC results file named after its class, or a folder of these.
        iou: Minimum overlap (intersection over union) of a correct detection; COCO's columns use their own.
        least_score: Precision and recall ignore detections below it; average precision uses all
            detections.

    Raises:
        SourceError: A file cannot be read, or contains images or classes without labels.
        UsageError: A limit is out of range, or pycocotools is not installed.
    """
    if not 0 < iou <= 1:
        raise UsageError(f"iou is {iou:g}, expected a number above 0 and at most 1")
    truth, ids = read_labels(check_file(labels, what="labels"))
    found = read_detections(check_file(detections, what="detections"), truth, ids)
    return score(truth, found, iou=iou, least_score=least_score)
