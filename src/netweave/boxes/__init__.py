"""Bounding boxes: extracted from a net's outputs, read from files, and scored as VOC and COCO define it."""

from netweave.boxes.heads import find_boxes
from netweave.boxes.read import read_detections, read_labels
from netweave.boxes.scores import BoxScores, ClassScores, score
from netweave.boxes.tables import Detections, Labels

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
