"""COCO's JSON: labelled boxes, and detections as a list of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from netweave.errors import ReadError
from netweave.files.source import read_bytes
from netweave.training.boxes.scores import Detections, Labels

_LABELS = ("images", "annotations", "categories")


def read_labels(path: Path) -> tuple[Labels, dict[Any, int], dict[Any, int]]:
    """Return labelled boxes, and the numbers of images and of categories by their ids in the file.

    Raises:
        ReadError: The file is no such JSON, or one of its entries is wrong.
    """
    content = _json(path)
    if not isinstance(content, dict) or not all(isinstance(content.get(name), list) for name in _LABELS):
        raise ReadError(
            f"is not COCO JSON of labelled boxes: expected an object with the lists {', '.join(_LABELS)}",
            place=str(path),
        )
    images = _numbered(content["images"], "images", path)
    categories = _numbered(content["categories"], "categories", path)
    rows = [
        _labelled(entry, images, categories, f"{path}: annotations[{number}]")
        for number, entry in enumerate(content["annotations"])
    ]
    crowds = np.array([row[3] for row in rows], bool)
    labels = Labels(
        images=tuple(str(entry.get("file_name", entry["id"])) for entry in content["images"]),
        classes=tuple(str(entry.get("name", entry["id"])) for entry in content["categories"]),
        image=np.array([row[0] for row in rows], np.int64),
        label=np.array([row[1] for row in rows], np.int64),
        corners=_corners([row[2] for row in rows]),
        ignored=crowds,
        crowd=crowds,
        area=np.array([row[4] for row in rows], np.float64),
    )
    return labels, images, categories


def read_results(path: Path, images: Mapping[Any, int], categories: Mapping[Any, int]) -> Detections:
    """Return the detections of a list of results.

    Args:
        path: The file.
        images: Numbers of the images by what the file calls them.
        categories: Numbers of the classes, likewise.

    Raises:
        ReadError: The file is no such list, or an entry is wrong, or of an image or class that has no labels.
    """
    content = _json(path)
    if not isinstance(content, list):
        raise ReadError(
            "is not COCO JSON of results: expected a list of objects with image_id, category_id, bbox "
            "and score",
            place=str(path),
        )
    rows = []
    for number, entry in enumerate(content):
        place = f"{path}: [{number}]"
        image, label, box = _placed(entry, images, categories, place)
        rows.append((image, label, _number(entry, "score", place), box))
    return Detections(
        image=np.array([row[0] for row in rows], np.int64),
        label=np.array([row[1] for row in rows], np.int64),
        score=np.array([row[2] for row in rows], np.float64),
        corners=_corners([row[3] for row in rows]),
    )


def _json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise ReadError(f"is not JSON: {error}", place=str(path)) from error


def _numbered(entries: list[Any], what: str, path: Path) -> dict[Any, int]:
    numbers: dict[Any, int] = {}
    for number, entry in enumerate(entries):
        key = entry.get("id") if isinstance(entry, dict) else None
        if not isinstance(key, int | str) or key in numbers:
            raise ReadError(
                f"{what}[{number}] has the id {key!r}, expected a unique number or string",
                place=str(path),
            )
        numbers[key] = number
    return numbers


def _labelled(
    entry: Any, images: Mapping[Any, int], categories: Mapping[Any, int], place: str
) -> tuple[int, int, list[float], bool, float]:
    image, label, box = _placed(entry, images, categories, place)
    area = _number(entry, "area", place) if "area" in entry else box[2] * box[3]
    return image, label, box, bool(entry.get("iscrowd", 0)), area


def _placed(
    entry: Any, images: Mapping[Any, int], categories: Mapping[Any, int], place: str
) -> tuple[int, int, list[float]]:
    """Return the numbers of image and class of an entry, and its box."""
    if not isinstance(entry, dict):
        raise ReadError(f"is {entry!r:.60}, expected an object", place=place)
    numbers = []
    for name, known in (("image_id", images), ("category_id", categories)):
        key = entry.get(name)
        if not isinstance(key, int | str) or key not in known:
            raise ReadError(
                f"{name!r} is {key!r}, which is not among the {len(known)} of the labels", place=place
            )
        numbers.append(known[key])
    box = entry.get("bbox")
    if not isinstance(box, list) or len(box) != 4 or not all(_is_number(side) for side in box):
        raise ReadError(f"'bbox' is {box!r:.60}, expected four numbers: x, y, width, height", place=place)
    if min(box[2:]) < 0:
        raise ReadError(f"'bbox' is {box}, expected a width and a height of 0 or more", place=place)
    return numbers[0], numbers[1], box


def _number(entry: Mapping[str, Any], name: str, place: str) -> float:
    value = entry.get(name)
    if not _is_number(value):
        raise ReadError(f"{name!r} is {value!r:.60}, expected a number", place=place)
    return float(value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _corners(boxes: Sequence[Sequence[float]]) -> np.ndarray:
    """Return corners of boxes of x, y, width and height."""
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    return corners
