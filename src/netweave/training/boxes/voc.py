"""Pascal VOC's files: one XML for each image, and a text for each class with what was found.

Corners are whole pixels that both belong to the box, so that its width is x1 - x0 + 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from netweave.errors import ReadError
from netweave.files.source import read_bytes
from netweave.training.boxes.scores import Detections, Labels

_SIDES = ("xmin", "ymin", "xmax", "ymax")

Row = tuple[str, list[float], bool]
"""Class, corners as written, and whether it is difficult."""


@dataclass(frozen=True, slots=True)
class Annotation:
    """The annotation in the XML file of an image.

    Attributes:
        size: Width and height of the image in pixels; 0 where the file does not say.
        objects: The labelled boxes.
    """

    size: tuple[int, int]
    objects: list[Row]


def read_labels(folder: Path) -> Labels:
    """Return the boxes of all XML files of a folder; images are named as the files are.

    Raises:
        ReadError: There are none, or one is wrong.
    """
    files = sorted(folder.glob("*.xml"))
    if not files:
        raise ReadError(
            "contains no .xml files, expected one for each image, as in VOC's Annotations",
            place=str(folder),
        )
    of_image = [read_annotation(file).objects for file in files]
    classes = tuple(sorted({name for rows in of_image for name, _, _ in rows}))
    numbers = {name: number for number, name in enumerate(classes)}
    rows = [(image, *row) for image, found in enumerate(of_image) for row in found]
    return Labels(
        images=tuple(file.stem for file in files),
        classes=classes,
        image=np.array([row[0] for row in rows], np.int64),
        label=np.array([numbers[row[1]] for row in rows], np.int64),
        corners=_corners([row[2] for row in rows]),
        ignored=np.array([row[3] for row in rows], bool),
        crowd=np.zeros(len(rows), bool),
    )


def read_results(files: Sequence[Path], labels: Labels) -> Detections:
    """Return the detections of texts that are named after their classes: ``comp4_det_test_car.txt``.

    A line has the image's name, the score, and the corners.

    Raises:
        ReadError: A name fits no class, or a line is wrong or of an image that has no labels.
    """
    images = {name: number for number, name in enumerate(labels.images)}
    rows: list[tuple[int, int, float, list[float]]] = []
    for file in files:
        label = _class_of(file, labels.classes)
        text = read_bytes(file).decode("utf-8", "replace") if file.stat().st_size else ""
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                image, score, box = _found(line, images, f"{file}:{number}")
                rows.append((image, label, score, box))
    return Detections(
        image=np.array([row[0] for row in rows], np.int64),
        label=np.array([row[1] for row in rows], np.int64),
        score=np.array([row[2] for row in rows], np.float64),
        corners=_corners([row[3] for row in rows]),
    )


def read_annotation(file: Path) -> Annotation:
    """Return what the XML file of an image says.

    Raises:
        ReadError: It cannot be read, is no XML, or lacks what a box needs.
    """
    content = read_bytes(file)
    if b"\0" in content:  # UTF-16 would hide a declaration of entities
        raise ReadError("is no XML in UTF-8", place=str(file))
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ReadError("has a document type declaration, which VOC files do not have", place=str(file))
    try:
        root = ElementTree.fromstring(content)
    except (ElementTree.ParseError, LookupError, ValueError) as error:  # the latter: encodings
        raise ReadError(f"is not XML: {error}", place=str(file)) from error
    if root.tag != "annotation":
        raise ReadError(f"begins with <{root.tag}>, expected <annotation>", place=str(file))
    objects = [
        _object(entry, f"{file}: object {number}") for number, entry in enumerate(root.findall("object"), 1)
    ]
    width, height = (_side(root.findtext(f"size/{name}"), file) for name in ("width", "height"))
    return Annotation((width, height), objects)


def _side(text: str | None, file: Path) -> int:
    """Return a side of the image in pixels; 0 where the file does not say."""
    if not text or not text.strip():
        return 0
    if not re.fullmatch(r"\s*[0-9]{1,6}\s*", text):
        raise ReadError(f"its <size> has {text!r:.40}, expected a number of pixels", place=str(file))
    return int(text)


def _object(entry: ElementTree.Element, place: str) -> Row:
    name, box = (entry.findtext("name") or "").strip(), entry.find("bndbox")
    if not name or box is None:
        raise ReadError("has no <name> or no <bndbox>, expected both", place=place)
    corners = [_number(box.findtext(side), f"<{side}>", place) for side in _SIDES]
    if corners[2] < corners[0] or corners[3] < corners[1]:
        raise ReadError(f"its box is {corners}, expected xmin, ymin, xmax, ymax", place=place)
    return name, corners, (entry.findtext("difficult") or "0").strip() not in {"0", ""}


def _class_of(file: Path, classes: Sequence[str]) -> int:
    """Return the class that a file's name ends in: the longest, as ``motorbike`` before ``bike``."""
    fitting = [name for name in classes if re.search(rf"(^|_){re.escape(name)}$", file.stem)]
    if not fitting:
        raise ReadError(
            f"its name ends in no known class; expected one of {', '.join(classes)} at the end, as in "
            f"comp4_det_test_{classes[0] if classes else 'car'}.txt",
            place=str(file),
        )
    return classes.index(max(fitting, key=len))


def _found(line: str, images: dict[str, int], place: str) -> tuple[int, float, list[float]]:
    words = line.split()
    if len(words) != 6:
        raise ReadError(
            f"has {len(words)} words, expected 6: image, score, xmin, ymin, xmax, ymax", place=place
        )
    if words[0] not in images:
        raise ReadError(f"image {words[0]!r} is not among the {len(images)} images with labels", place=place)
    score, *box = (_number(word, "a number", place) for word in words[1:])
    return images[words[0]], score, box


def _number(text: str | None, what: str, place: str) -> float:
    try:
        number = float(text or "")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ReadError(f"{what} is {text!r}, expected a number", place=place)
    return number


def _corners(boxes: Sequence[Sequence[float]]) -> np.ndarray:
    """Return corners of which the second lies behind the box."""
    corners = np.array(boxes, np.float64).reshape(-1, 4)
    corners[:, 2:] += 1
    return corners
