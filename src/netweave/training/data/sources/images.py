"""Images and boxes as sources."""

from __future__ import annotations

import re
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

import numpy as np

from netweave.errors import NetweaveError, ReadError
from netweave.files.image_lists import SUFFIXES, darknet_labels, image_files, label_file, voc_labels
from netweave.files.source import is_file
from netweave.graph.ops.box_geometry import centres_of_corners, corners_of_centres
from netweave.graph.ops.regions import TRUTH_COLUMNS
from netweave.job import require_allowed
from netweave.runtime.images.decode import decode
from netweave.training.boxes.voc import read_annotation
from netweave.training.data.block_checksums import check_content, checked
from netweave.training.data.byte_file import Span, open_bytes
from netweave.training.data.item import Item
from netweave.training.data.location import (
    exists,
    is_remote,
    join,
    lines_of,
    read_file,
    read_files,
    read_text,
)
from netweave.training.data.recordio import (
    FIRST,
    LAST,
    MIDDLE,
    WHOLE,
    Packed,
    head,
    leading_labels,
    padded,
    unframe,
    unpack,
)
from netweave.training.data.source import Record, StoredSource


class ImageFiles(StoredSource):
    """Image files; a subclass says what belongs to each.

    Attributes:
        files: Their names.
    """

    images = True

    def __init__(self, place: str, color: str, files: list[str]) -> None:
        self.place = place
        self._color = color
        self.files = files
        self.remote = any(map(is_remote, files))

    def __len__(self) -> int:
        return len(self.files)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: record {index} ({self.files[index]})"

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return several files."""
        if len(indices) == 1:
            return [self._content(indices[0])]
        try:
            return read_files([self.files[index] for index in indices])
        except ReadError:
            return [self._content(index) for index in indices]  # which says whose file it is

    @abstractmethod
    def labels_of(self, index: int) -> np.ndarray:
        """Return what a writer is given beside an image: float32, one axis."""

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        name = self.files[index].removeprefix(f"{self.place}/")
        return Item(name, self.labels_of(index), content=self._content(index))

    def _content(self, index: int) -> bytes:
        try:
            return read_file(self.files[index])
        except ReadError as error:
            raise ReadError(error.message, place=self.describe(index)) from error


class _Classified(ImageFiles):
    """Images with numbers.

    Attributes:
        labels: float32, one row for each; one number for each where that is all.
    """

    def __init__(self, place: str, color: str, files: list[str], labels: list[list[float]]) -> None:
        super().__init__(place, color, files)
        self.labels = np.array(labels, np.float32)
        if self.labels.shape[1] == 1:
            self.labels = self.labels[:, 0]

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and label."""
        return decode(fetched, self._color, lambda: self.describe(index)), self.labels[index]

    def labels_of(self, index: int) -> np.ndarray:
        """Return the labels of an image."""
        return np.asarray(self.labels[index].reshape(-1))


class ImageList(_Classified):
    """Images in the order of the list.

    Args:
        path: The list. A name that ends in ``.lst`` is MXNet's (number, labels and file, with tabs between),
            any other is Caffe's (file and label, the last space between).
        root_folder: Put before each file's name as it is, as Caffe does.
        base: The folder that relative names are in; absolute names and URLs stay as they are.
        color: How images are decoded.
        urls: URLs that the list may name, or beginnings of them; None for any.

    Raises:
        ReadError: The list is missing, empty, or has a line of another kind.
        UsageError: It names a URL that is not among ``urls``.
    """

    def __init__(
        self,
        path: str,
        root_folder: str = "",
        base: str = "",
        color: str = "bgr",
        urls: Sequence[str] | None = None,
    ) -> None:
        lines = list(_mxnet_lines(path) if path.endswith(".lst") else _caffe_lines(path))
        if not lines:
            raise ReadError("lists no images", place=path)
        widths = sorted({len(labels) for _, labels in lines})
        if len(widths) > 1:
            raise ReadError(f"has lines with {widths} labels, expected the same number", place=path)
        base = base_of(path, root_folder, base, lines[0][0])
        files = [join(base, root_folder + name) for name, _ in lines]
        for file in files if urls is not None else ():
            require_allowed(file, urls or (), path)
        super().__init__(path, color, files, [labels for _, labels in lines])


class ImageFolder(_Classified):
    """Images of a folder's folders, which are the classes, in alphabetical order.

    Args:
        path: The folder.
        color: How images are decoded.

    Attributes:
        classes: Names of the classes; the label of an image is the number of its class.

    Raises:
        ReadError: There is no such folder, or it has no images in folders.
    """

    def __init__(self, path: str, color: str = "bgr") -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise ReadError("there is no such folder", place=path)
        self.classes = sorted(inner.name for inner in folder.iterdir() if inner.is_dir())
        images = [
            (str(file), [float(label)])
            for label, name in enumerate(self.classes)
            for file in sorted((folder / name).rglob("*"))
            if file.suffix.lower() in SUFFIXES
        ]
        if not images:
            raise ReadError("has no subfolders with images, expected one per class", place=path)
        super().__init__(path, color, [name for name, _ in images], [labels for _, labels in images])


def base_of(path: str, root_folder: str, base: str, name: str) -> str:
    """Return the folder that names in a list are in: that of the list, if only there is such a file.

    Args:
        path: The list.
        root_folder: Put before each name.
        base: The folder that they should be in.
        name: The first name.
    """
    beside = path.rpartition("/")[0]
    missing = not is_remote(base) and not exists(join(base, root_folder + name))
    return beside if missing and exists(join(beside, root_folder + name)) else base


def _caffe_lines(path: str) -> Iterator[tuple[str, list[float]]]:
    for number, line in lines_of(path):
        name, _space, label = line.rstrip().rpartition(" ")
        try:
            yield name, [float(label)]
        except ValueError as error:
            message = f"found {line!r}, expected a file, a space and a label"
            raise ReadError(message, place=f"{path}:{number}") from error


def _mxnet_lines(path: str) -> Iterator[tuple[str, list[float]]]:
    for number, line in lines_of(path):
        fields = line.rstrip("\n").split("\t")
        try:
            int(fields[0])
            yield fields[-1], [float(label) for label in fields[1:-1]]
        except ValueError as error:
            message = f"found {line!r}, expected number, labels and file, with tabs between"
            raise ReadError(message, place=f"{path}:{number}") from error


# Where images and their labels are is said in ``files.image_lists``.

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
        first_pixel: The number that the left and top edge of an image has in XML.

    Raises:
        ReadError: There are no images, or labels are missing or wrong; the first files that are are named.
    """

    boxes = True
    first_pixel = 1

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
            first = self.first_pixel
            relative = ((x0 - first) / width, (y0 - first) / height, x1 / width, y1 / height)
            pixel = (1 / width, 1 / height)
            rows.append([*_inside(relative, place, pixel), self._names[name], float(difficult)])
        return rows


class AnnotatedImages(LabelledImages):
    """Images with boxes as SSD is trained on them: VOC's numbers of pixels are taken as they are.

    Args:
        path: As for ``LabelledImages``.
        names: Names of the classes by number, the background first; "" for a number without one.
        color: How images are decoded.

    Raises:
        ReadError: As ``LabelledImages``, or there are no names.
    """

    truth_rows = True
    first_pixel = 0

    def __init__(self, path: str, names: Sequence[str] = (), color: str = "bgr") -> None:
        if not names:
            raise ReadError(
                "needs the numbers of its classes; the label_map_file of the net names no file that is there",
                place=path,
            )
        super().__init__(path, len(names), names, color=color)


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


OFFSET = re.compile("[0-9]{1,18}")
"""What an index may say: no more than fits into 64 bits."""

LARGE_BYTES = 8 << 20
"""From this size on the length of a record is looked up before it is read."""


class RecordIO(StoredSource):
    """Records in the order of the index, or of the file where there is none.

    Without an index, opening goes through the whole file once to find where records begin.

    Args:
        path: The ``.rec`` file.
        index: The ``.idx`` file; None for the one beside it, if there is one.
        color: How images are decoded; MXNet's order is ``rgb``.
        label_width: Numbers in a label, >= 1; 0 where each record has as many as it needs.
        labels: A list (``.lst``) whose labels replace those in the records, by number of the record.

    Raises:
        ReadError: A file is missing, damaged, or the index is of another file.
    """

    images = True

    def __init__(
        self,
        path: str,
        index: str | None = None,
        color: str = "rgb",
        label_width: int = 1,
        labels: str | None = None,
    ) -> None:
        self.place = path
        self._color = color
        self._label_width = label_width
        self._file = checked(open_bytes(path))
        self.remote = self._file.remote
        if not self._file.num_bytes:
            self.close()
            raise ReadError("the file is empty; was it copied or downloaded whole?", place=path)
        self._starts, self._ends = self._spans(index)
        self._labels = _labels(labels, label_width) if labels else None
        if not len(self._starts):
            raise ReadError("has no records", place=path)

    def __len__(self) -> int:
        return len(self._starts)

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return the bytes of several records."""
        return self._file.read_many([self._span(index) for index in indices])

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and label; a label of width 1 is a number."""
        packed, labels = self._packed(index, fetched)
        pixels = decode(packed.content, self._color, lambda: self.describe(index))
        return pixels, np.asarray(labels if self._label_width > 1 else labels[0], np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        packed, labels = self._packed(index, self.fetch([index])[0])
        return Item(str(packed.identity), labels, content=packed.content)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _packed(self, index: int, frame: bytes) -> tuple[Packed, np.ndarray]:
        place = self.describe(index)
        try:
            packed = unpack(unframe(frame))
        except ValueError as error:
            raise ReadError(str(error), place=place) from error
        labels = packed.labels if self._labels is None else self._labels.get(packed.identity)
        if labels is None or labels.size != (self._label_width or labels.size):
            count = "none" if labels is None else str(labels.size)
            wanted = self._label_width or "some"
            raise ReadError(f"has {count} labels, expected {wanted} (label_width)", place=place)
        return packed, labels

    def _span(self, index: int) -> Span:
        """Return where a record lies; behind it may lie others that the index leaves out."""
        start, end = int(self._starts[index]), int(self._ends[index])
        if end - start > LARGE_BYTES:
            end = self._end_of(start)
        return start, end - start

    def _end_of(self, start: int) -> int:
        at = start
        while True:
            try:
                flag, length = head(self._file.read(at, 8))
            except ValueError:
                return at + 8  # so that what is wrong is said when the record is parsed
            at += 8 + padded(length)
            if flag in {WHOLE, LAST}:
                return at

    def _spans(self, index: str | None) -> tuple[np.ndarray, np.ndarray]:
        """Return the first byte of each record, and an upper bound of its last."""
        if index is None:
            beside = _index_beside(self.place)
            index = beside if exists(beside) else None
        if index is None:
            starts = np.array(self._scan(), np.int64)
            return starts, np.append(starts[1:], self._file.num_bytes)
        starts = np.array([offset for _, offset in _index(index)], np.int64)
        bounds = np.append(np.unique(starts), self._file.num_bytes)
        wrong = starts >= self._file.num_bytes
        if wrong.any():
            raise ReadError(
                f"names byte {starts[wrong][0]:,} of {self.place}, which has {self._file.num_bytes:,}; "
                "is it the index of this file?",
                place=index,
            )
        return starts, bounds[np.searchsorted(bounds, starts, side="right")]

    def _scan(self) -> array[int]:
        starts, at = array("q"), 0
        while at < self._file.num_bytes:
            try:
                flag, length = head(self._file.read(at, 8))
            except ValueError as error:
                raise ReadError(f"the record at byte {at:,} {error}", place=self.place) from error
            if flag not in {MIDDLE, FIRST + MIDDLE}:
                starts.append(at)
            at += 8 + padded(length)
        return starts


def _index_beside(path: str) -> str:
    if not is_remote(path):
        return str(Path(path).with_suffix(".idx"))
    head, dot, _ = path.rpartition(".")
    return f"{head if dot else path}.idx"


def _index(path: str) -> list[tuple[str, int]]:
    if not is_remote(path):
        check_content(path, read_file(path))
    entries = []
    for number, line in lines_of(path):
        key, _, offset = line.partition("\t")
        offset = offset.strip()
        if not OFFSET.fullmatch(offset):
            raise ReadError(f"found {line!r}, expected a key, a tab and a byte", place=f"{path}:{number}")
        entries.append((key, int(offset)))
    return entries


def _labels(path: str, width: int) -> dict[int, np.ndarray]:
    labels = {}
    for number, line in lines_of(path):
        fields = line.split("\t")
        try:
            labels[int(fields[0])] = np.array([float(field) for field in fields[1:-1]], np.float32)
        except ValueError as error:
            message = f"found {line!r}, expected number, {width} labels and file, with tabs between"
            raise ReadError(message, place=f"{path}:{number}") from error
    return labels


# A label is a header (its own size, the size of an object's row, whatever else), then the objects: class,
# the corners relative to the image, whatever else.

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
