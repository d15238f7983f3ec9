"""MXNet's records of images with objects (iter_image_det_recordio.cc): labels of different lengths.

A label is a header (its own size, the size of an object's row, whatever else), then the objects: class, the
corners relative to the image, whatever else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.graph.ops.box_geometry import centres_of_corners, corners_of_centres
from netweave.runtime.images.decode import decode
from netweave.training.data.recordio import leading_labels
from netweave.training.data.sources.recordio import RecordIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.training.data.source import Record

LEAST_HEADER, LEAST_OBJECT = 2, 5
"""Numbers of a header, and of an object's row, at least."""

LEADING_BYTES = 4096
"""So many of each record are read to find its label: the header and two hundred objects."""

READ_AT_ONCE = 256
"""Records whose first bytes are read together when a file is opened."""


@dataclass(frozen=True, slots=True)
class DetectionLabel:
    """A label, taken apart.

    Attributes:
        header: Its header; the first two numbers are the sizes of header and row.
        objects: Centre, width, height, class and the rest of those objects that have an area.
    """

    header: np.ndarray
    objects: np.ndarray


def parse_label(label: np.ndarray, place: str) -> DetectionLabel:
    """Return a label taken apart.

    Raises:
        ReadError: It is none; the message names the place.
    """
    is_complete = len(label) >= LEAST_HEADER + LEAST_OBJECT and bool(np.isfinite(label).all())
    width, row = (int(number) for number in label[:2]) if is_complete else (0, 0)
    if not LEAST_HEADER <= width <= len(label) or row < LEAST_OBJECT or (len(label) - width) % row:
        shown = ", ".join(f"{number:g}" for number in label[:4])
        raise ReadError(
            f"has {len(label)} labels that begin with {shown}, expected a label of objects: size of its "
            f"header (>= {LEAST_HEADER}), size of an object's row (>= {LEAST_OBJECT}), the rest of the "
            "header, then whole rows of class, left, top, right, bottom; was it packed for classification?",
            place=place,
        )
    rows = label[width:].reshape(-1, row)
    rows = rows[(rows[:, 3] > rows[:, 1]) & (rows[:, 4] > rows[:, 2])]
    corners = rows[:, 1:5].astype(np.float64)
    boxes = centres_of_corners(corners, np).astype(np.float32)
    return DetectionLabel(label[:width], np.concatenate([boxes, rows[:, :1], rows[:, 5:]], axis=1))


def join_label(header: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Return the label of a record of ``DetectionRecords``, from its header and those boxes that are left."""
    width, row = int(header[0]), int(header[1])
    rows = boxes[boxes[:, 2] > 0]
    corners = corners_of_centres(rows[:, :4].astype(np.float64), np)
    objects = np.concatenate([rows[:, 4:5], corners, rows[:, LEAST_OBJECT:row]], axis=1)
    return np.concatenate([header[:width], objects.reshape(-1)]).astype(np.float32)


class DetectionRecords(RecordIO):
    """Records with objects: pixels, boxes, and the headers of the labels.

    Opening it reads the labels of all records, to know how long the longest is.

    Args:
        path: The ``.rec`` file.
        index: The ``.idx`` file; None for the one beside it, if there is one.
        color: How images are decoded.
        label_width: Numbers in each label; 0 or less where records differ.
        labels: A list (``.lst``) whose labels replace those in the records, by number of the record.

    Attributes:
        longest: Numbers in the longest label.

    Raises:
        ReadError: As ``RecordIO``; or a label is not one of objects.
    """

    boxes = True

    def __init__(
        self,
        path: str,
        index: str | None = None,
        color: str = "rgb",
        label_width: int = 0,
        labels: str | None = None,
    ) -> None:
        super().__init__(path, index, color, max(0, label_width), labels)
        self.longest, self._headers, self._rows, self._columns = 0, 0, 1, LEAST_OBJECT
        try:
            for number, label in enumerate(self._all_labels()):
                parsed = parse_label(label, self.describe(number))
                self.longest = max(self.longest, len(label))
                self._headers = max(self._headers, len(parsed.header))
                self._rows = max(self._rows, len(parsed.objects))
                self._columns = max(self._columns, parsed.objects.shape[1])
        except BaseException:
            self.close()
            raise

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels, boxes (as many rows for every record) and header (filled up with zeros)."""
        packed, labels = self._packed(index, fetched)
        label = parse_label(labels, self.describe(index))
        boxes, header = np.zeros((self._rows, self._columns), np.float32), np.zeros(self._headers, np.float32)
        boxes[: len(label.objects), : label.objects.shape[1]] = label.objects
        header[: len(label.header)] = label.header
        return decode(packed.content, self._color, lambda: self.describe(index)), boxes, header

    def _all_labels(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self), READ_AT_ONCE):
            numbers = range(start, min(start + READ_AT_ONCE, len(self)))
            spans = [self._span(number) for number in numbers]
            heads = self._file.read_many([(at, min(size, LEADING_BYTES)) for at, size in spans])
            for number, content in zip(numbers, heads, strict=True):
                yield self._label_of(number, content)

    def _label_of(self, number: int, content: bytes) -> np.ndarray:
        if self._labels is None and not self._label_width:
            try:
                label = leading_labels(content)
            except ValueError as error:
                raise ReadError(str(error), place=self.describe(number)) from error
            if label is not None:
                return label
        return self._packed(number, self.fetch([number])[0])[1]
