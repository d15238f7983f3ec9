"""Files of boxes, written as VOC and COCO write them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

Truth = dict[str, list[tuple[str, list[float], int]]]
"""By image: class, corners as VOC writes them, and whether it is difficult."""

Found = list[tuple[str, str, float, list[float]]]
"""Image, class, score and corners."""


def write_annotations(folder: Path, truth: Truth) -> Path:
    """Write one XML for each image."""
    folder.mkdir()
    for image, rows in truth.items():
        objects = "".join(
            f"<object><name>{name}</name><difficult>{difficult}</difficult><bndbox>{_sides(box)}</bndbox></object>"
            for name, box, difficult in rows
        )
        (folder / f"{image}.xml").write_text(f"<annotation>{objects}</annotation>")
    return folder


def _sides(box: list[float]) -> str:
    names = ("xmin", "ymin", "xmax", "ymax")
    return "".join(f"<{name}>{side!r}</{name}>" for name, side in zip(names, box, strict=True))


def write_results(folder: Path, found: Found) -> Path:
    """Write one text for each class."""
    folder.mkdir()
    for name in {row[1] for row in found}:
        lines = [
            f"{image} {score!r} {' '.join(map(repr, box))}" for image, own, score, box in found if own == name
        ]
        (folder / f"comp4_det_test_{name}.txt").write_text("\n".join(lines) + "\n")
    return folder


def write_json(path: Path, content: Any) -> Path:
    """Write COCO's JSON."""
    path.write_text(json.dumps(content))
    return path


def coco_labels(boxes: list[dict[str, Any]], *, images: int = 2, classes: int = 2) -> dict[str, Any]:
    """Return COCO's labels with images 11, 12 ... and classes 5, 6 ..."""
    return {
        "images": [{"id": 11 + number, "file_name": f"{number}.jpg"} for number in range(images)],
        "categories": [{"id": 5 + number, "name": f"class{number}"} for number in range(classes)],
        "annotations": [{"id": number, **box} for number, box in enumerate(boxes)],
    }
