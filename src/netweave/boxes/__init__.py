"""Boxes that were labelled and boxes that were found: read, and scored as VOC and COCO define it."""

from netweave.boxes.read import read_detections, read_labels
from netweave.boxes.scores import BoxScores, ClassScores, score
from netweave.boxes.tables import Detections, Labels

__all__ = ["BoxScores", "ClassScores", "Detections", "Labels", "read_detections", "read_labels", "score"]
