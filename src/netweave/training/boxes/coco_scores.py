"""Average precision as COCO defines it, by COCO's own program (pycocotools)."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.installation import install_command

if TYPE_CHECKING:
    from netweave.training.boxes.tables import Detections, Labels


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
