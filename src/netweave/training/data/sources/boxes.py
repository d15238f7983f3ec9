"""Images with labelled boxes: lists of Darknet's with its label files, and folders in the form of Pascal VOC.

Where images and their labels are is said in ``files.image_lists``.
"""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import NetweaveError, ReadError
from netweave.files.image_lists import darknet_labels, image_files, label_file, voc_labels
from netweave.files.source import is_file
from netweave.graph.ops.yolo_loss import TRUTH_COLUMNS
from netweave.runtime.images.decode import decode
from netweave.training.boxes.voc import read_annotation
from netweave.training.data.location import read_text
from netweave.training.data.sources.images import ImageFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.training.data.source import Record

TOLERANCE = 0.01
"""So much of the image's size may a box be outside of it: tools round differently."""

MOST_ERRORS = 5
"""So many files that are wrong are named at once."""


class LabelledImages(ImageFiles):
    """Images with boxes.

    Args:
        path: A list of images, a list of VOC's ``ImageSets``, or a folder of images.
        classes: Number of classes.
        names: Names of the classes, which labels in XML need.
        root: Folder that relative names in a list are in.
        difficult: Whether boxes that VOC calls difficult are there.
        color: How images are decoded.

    Attributes:
        boxes_of: The boxes of each image, (number, 6).

    Raises:
        ReadError: There are no images, or labels are missing or wrong; the first files that are are named.
    """

    boxes = True

    def __init__(
        self,
        path: str,
        classes: int,
        names: Sequence[str] = (),
        root: str = "",
        difficult: bool = True,
        color: str = "rgb",
    ) -> None:
        self._classes, self._names = classes, {name: number for number, name in enumerate(names)}
        files = image_files(Path(path), Path(root))
        self.boxes_of: list[np.ndarray] = []
        errors: list[ReadError] = []
        for file in files:
            try:
                boxes = self._boxes(file)
                self.boxes_of.append(boxes if difficult else boxes[boxes[:, 5] == 0])
            except ReadError as error:
                errors.append(error)
        if errors:
            raise _joined(errors, len(files), path)
        self._rows = max(1, *(len(boxes) for boxes in self.boxes_of))
        super().__init__(path, color, [str(file) for file in files])

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and boxes, as many rows for every image."""
        padded = np.zeros((self._rows, TRUTH_COLUMNS), np.float32)
        padded[: len(self.boxes_of[index])] = self.boxes_of[index]
        return decode(fetched, self._color, lambda: self.describe(index)), padded

    def labels_of(self, index: int) -> np.ndarray:
        """Return the boxes of an image in one row."""
        return self.boxes_of[index].reshape(-1)

    def _boxes(self, image: Path) -> np.ndarray:
        """Return the boxes of an image from the file with its labels."""
        if not is_file(image):
            raise ReadError("there is no such image", place=str(image))
        label = label_file(image)
        if label is None:
            raise ReadError(
                f"has no labels: neither {darknet_labels(image)} nor {voc_labels(image)} exists; an image "
                "without objects needs an empty .txt",
                place=str(image),
            )
        rows = self._from_xml(label, image) if label.suffix == ".xml" else self._from_text(label)
        return np.array(rows, np.float32).reshape(-1, TRUTH_COLUMNS)

    def _from_text(self, file: Path) -> list[list[float]]:
        rows = []
        for number, line in enumerate(read_text(str(file)).splitlines(), 1):
            if not line.strip():
                continue
            place, words = f"{file}:{number}", line.split()
            try:
                numbers = [float(word) for word in words]
            except ValueError:
                numbers = []
            if len(numbers) != 5 or not all(map(isfinite, numbers)):
                raise ReadError(f"is {line.strip()!r:.60}, expected: class x y width height", place=place)
            label, x, y, width, height = numbers
            if label not in range(self._classes):
                raise ReadError(f"class {label:g}, expected 0 to {self._classes - 1}", place=place)
            corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
            rows.append([*_inside(corners, place), label, 0.0])
        return rows

    def _from_xml(self, file: Path, image: Path) -> list[list[float]]:
        annotation = read_annotation(file)
        width, height = annotation.size
        if not (width and height):
            height, width = decode(image.read_bytes(), "native", lambda: str(image)).shape[:2]
        rows = []
        for number, (name, corners, difficult) in enumerate(annotation.objects, 1):
            place = f"{file}: object {number}"
            if name not in self._names:
                known = ", ".join(self._names) or "none, since no names are given"
                raise ReadError(f"unknown class {name!r}, expected one of: {known}", place=place)
            # VOC counts pixels from 1, and the last one belongs to the box
            x0, y0, x1, y1 = corners
            relative = ((x0 - 1) / width, (y0 - 1) / height, x1 / width, y1 / height)
            pixel = (1 / width, 1 / height)
            rows.append([*_inside(relative, place, pixel), self._names[name], float(difficult)])
        return rows


def _inside(
    corners: Sequence[float], place: str, slack: Sequence[float] = (TOLERANCE, TOLERANCE)
) -> list[float]:
    """Return centre and size of a box, cut off where it is a little outside of the image.

    Raises:
        ReadError: It is further outside, or has no area.
    """
    x0, y0, x1, y1 = corners
    if x1 <= x0 or y1 <= y0:
        raise ReadError("has no area, expected a width and a height above 0", place=place)
    for low, high, allowed in ((x0, x1, slack[0]), (y0, y1, slack[1])):
        if low < -allowed - 1e-6 or high > 1 + allowed + 1e-6:
            shown = ", ".join(f"{number:.4g}" for number in corners)
            raise ReadError(
                f"reaches beyond the image: its corners are {shown} of the image's size, expected 0 to 1",
                place=place,
            )
    x0, y0, x1, y1 = (min(1.0, max(0.0, number)) for number in corners)
    return [(x0 + x1) / 2, (y0 + y1) / 2, x1 - x0, y1 - y0]


def _joined(errors: Sequence[NetweaveError], num_files: int, path: str) -> ReadError:
    """Return one error for all files that are wrong."""
    if len(errors) == 1:
        error = errors[0]
        assert isinstance(error, ReadError)
        return error
    shown = "; ".join(map(str, errors[:MOST_ERRORS]))
    more = f"; and {len(errors) - MOST_ERRORS} more" if len(errors) > MOST_ERRORS else ""
    return ReadError(f"{len(errors)} of {num_files} images cannot be used: {shown}{more}", place=path)
