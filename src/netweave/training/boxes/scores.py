"""Scores of detectors."""

from __future__ import annotations

import contextlib
import io
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.graph.ops.detection import overlaps
from netweave.installation import install_command


@dataclass(frozen=True, slots=True)
class CocoPrecision:
    """Average precisions of each class, nan for one without boxes: over overlaps from 0.5 to 0.95, at two."""

    mean: np.ndarray
    at_50: np.ndarray
    at_75: np.ndarray


def coco_precision(labels: Labels, found: Detections) -> CocoPrecision:
    """Return the average precisions of all classes, of at most 100 detections of an image.

    Raises:
        UsageError: pycocotools is not installed.
    """
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as error:
        message = f"COCO's precision needs the package pycocotools: {install_command('boxes')}"
        raise UsageError(message) from error

    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does
        truth, results = COCO(), COCO()
        truth.dataset = _truth(labels)
        results.dataset = {**_truth(labels), "annotations": _results(found)}
        truth.createIndex()
        results.createIndex()
        run = COCOeval(truth, results, "bbox")
        _ignore(run, labels)
        run.evaluate()
        run.accumulate()
    precision = run.eval["precision"][:, :, :, 0, -1]  # overlaps, recalls, classes; all areas
    return CocoPrecision(
        _means(precision),
        _means(precision[np.isclose(run.params.iouThrs, 0.5)]),
        _means(precision[np.isclose(run.params.iouThrs, 0.75)]),
    )


def _truth(labels: Labels) -> dict[str, Any]:
    sizes = labels.corners[:, 2:] - labels.corners[:, :2]
    areas = sizes.prod(axis=1) if labels.area is None else labels.area
    return {
        "images": [{"id": number} for number in range(len(labels.images))],
        "categories": [{"id": number} for number in range(len(labels.classes))],
        "annotations": [
            {
                "id": number + 1,
                "image_id": int(labels.image[number]),
                "category_id": int(labels.label[number]),
                "bbox": [*labels.corners[number, :2].tolist(), *sizes[number].tolist()],
                "area": float(areas[number]),
                "iscrowd": int(labels.crowd[number]),
            }
            for number in range(len(labels.label))
        ],
    }


def _results(found: Detections) -> list[dict[str, Any]]:
    sizes = found.corners[:, 2:] - found.corners[:, :2]
    return [
        {
            "id": number + 1,
            "image_id": int(found.image[number]),
            "category_id": int(found.label[number]),
            "bbox": [*found.corners[number, :2].tolist(), *sizes[number].tolist()],
            "area": float(sizes[number].prod()),
            "score": float(found.score[number]),
            "iscrowd": 0,
        }
        for number in range(len(found.label))
    ]


def _ignore(run: Any, labels: Labels) -> None:
    """Have boxes ignored that are no crowds: VOC's difficult ones, which COCO does not know."""
    prepare = run._prepare

    def prepared() -> None:
        prepare()
        for boxes in run._gts.values():
            for box in boxes:
                box["ignore"] = int(labels.ignored[box["id"] - 1])

    run._prepare = prepared


def _means(precision: np.ndarray) -> np.ndarray:
    """Return the mean of each class, whose precisions are all -1 where it has no boxes."""
    flat = precision.reshape(-1, precision.shape[-1])
    return np.array([column.mean() if (column > -1).all() else np.nan for column in flat.T])


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
    values = asdict(row)
    return {name: None if name in _MEANS and isnan(value) else value for name, value in values.items()}


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


@dataclass(frozen=True, slots=True)
class Labels:
    """Labelled boxes, one row each.

    Attributes:
        images: Names of all images, those without a box too.
        classes: Names of the classes.
        image: Number of each box's image.
        label: Number of its class.
        corners: (x0, y0, x1, y1), in pixels, where x1 and y1 are the first that are no more in the box.
        ignored: Whether it counts neither when it is found nor when it is not: VOC's difficult, COCO's crowd.
        crowd: Whether it stands for many objects (COCO), so that parts of it overlap it fully.
        area: Of the object, by which COCO tells small from large; None for that of the box.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    image: np.ndarray
    label: np.ndarray
    corners: np.ndarray
    ignored: np.ndarray
    crowd: np.ndarray
    area: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes that were found, one row each, with images and classes numbered as in the labels.

    Attributes:
        image: Number of each box's image.
        label: Number of its class.
        score: How sure it is, larger is surer.
        corners: As in ``Labels``.
    """

    image: np.ndarray
    label: np.ndarray
    score: np.ndarray
    corners: np.ndarray
