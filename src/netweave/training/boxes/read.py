"""Readers of files of boxes, by the kind of file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netweave.errors import ReadError
from netweave.training.boxes import coco, voc
from netweave.training.boxes.scores import Detections, Labels

Ids = tuple[dict[Any, int], dict[Any, int]]
"""Numbers of images and of classes by what files of detections call them."""


def read_labels(path: Path) -> tuple[Labels, Ids]:
    """Return labelled boxes: COCO's JSON, or a folder of VOC's XML files.

    Raises:
        ReadError: The files cannot be read, or hold something else.
    """
    if path.is_dir():
        labels = voc.read_labels(path)
        return labels, _by_name(labels)
    labels, images, categories = coco.read_labels(path)
    return labels, (images, categories)


def read_detections(path: Path, labels: Labels, ids: Ids) -> Detections:
    """Return detections: COCO's JSON of results, one text of VOC's, or a folder of such texts.

    Raises:
        ReadError: The files cannot be read, or hold images or classes that the labels have not.
    """
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        if not files:
            raise ReadError("holds no .txt files, expected one for each class", place=str(path))
        return voc.read_results(files, labels)
    if path.suffix == ".txt":
        return voc.read_results([path], labels)
    return coco.read_results(path, *ids)


def _by_name(labels: Labels) -> Ids:
    return (
        {name: number for number, name in enumerate(labels.images)},
        {name: number for number, name in enumerate(labels.classes)},
    )
