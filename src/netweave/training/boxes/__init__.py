"""Bounding boxes: extracted from a net's outputs, read from files, and scored as VOC and COCO define it."""

from netweave.training.boxes.anchors import find_boxes
from netweave.training.boxes.read import read_detections, read_labels
from netweave.training.boxes.scores import BoxScores, ClassScores, Detections, Labels, score

__all__ = [
    "BoxScores",
    "ClassScores",
    "Detections",
    "Labels",
    "find_boxes",
    "read_detections",
    "read_labels",
    "score",
]
