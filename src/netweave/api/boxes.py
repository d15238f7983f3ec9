"""Boxes and images of the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netweave.api.arguments import check_file, check_graph, data_paths
from netweave.errors import UsageError
from netweave.formats.darknet.config import with_lists
from netweave.formats.darknet.job import anchor_unit, class_names
from netweave.graph import Graph
from netweave.training.boxes import BoxScores, Detections, read_detections, read_labels, score
from netweave.training.boxes import find_boxes as find_in_outputs
from netweave.training.boxes.anchors import cluster
from netweave.training.data.sources.images import LabelledImages


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
    detections_read = read_detections(check_file(detections, what="detections"), truth, ids)
    return score(truth, detections_read, iou=iou, least_score=least_score)


SIZE = 416
"""Width and height of a net's input where nobody says: those of most nets of YOLO."""


@dataclass(frozen=True, slots=True)
class AnchorResult:
    """Anchors as a ``.cfg`` has them.

    Attributes:
        anchors: Width and height of each, smallest first.
        unit: What they are in: ``pixels`` of the net's input (v3), or ``cells`` (v2).
        mean_iou: Mean overlap of a box with the anchor that it overlaps most.
        num_boxes: How many boxes they are of.
        num_images: In how many images.
    """

    anchors: tuple[tuple[float, float], ...]
    unit: str
    mean_iou: float
    num_boxes: int
    num_images: int

    def __str__(self) -> str:
        digits = 0 if self.unit == "pixels" else 2
        return "anchors = " + ", ".join(f"{w:.{digits}f},{h:.{digits}f}" for w, h in self.anchors)


def find_anchors(
    data: Mapping[str, str | Path] | str | Path,
    count: int,
    *,
    net: str | Path | None = None,
    seed: int = 0,
) -> AnchorResult:
    """Return the anchors that the boxes of a data set overlap most, by k-means with 1 - IoU as distance.

    Args:
        data: Where images are, as for ``load_job``; the boxes of training are taken.
        count: How many anchors.
        net: The ``.cfg`` that they are for: in pixels of its input (v3), or in its cells (v2). By default in
            pixels of an input of 416 x 416.
        seed: Of what is drawn.

    Raises:
        SourceError: Files cannot be read, or labels are wrong.
        UsageError: There are no images to train on, or fewer different boxes than anchors.
    """
    images = with_lists(data_paths(data))
    if images.train is None:
        raise UsageError(f"{images.place}: has no images to train on; give train=LIST")
    unit, scale = ("pixels", (SIZE, SIZE)) if net is None else anchor_unit(Path(net))
    names = class_names(images)
    with LabelledImages(
        str(images.train), len(names) or 1 << 20, names, str(images.root), difficult=False
    ) as source:
        rows = np.concatenate(source.boxes_of)
    clusters = cluster(rows[:, 2:4].astype(np.float64), count, seed=seed)
    sizes = clusters.sizes * np.array(scale)
    return AnchorResult(
        tuple((float(width), float(height)) for width, height in sizes),
        unit,
        clusters.mean_iou,
        clusters.num_boxes,
        len(source),
    )
