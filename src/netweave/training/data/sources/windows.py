"""Caffe's WindowData: windows of images, of things and of background (``window_data_layer.cpp``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.job import require_allowed
from netweave.runtime.images.decode import decode
from netweave.runtime.images.scaling import scaled
from netweave.training.data.location import lines_of, read_file
from netweave.training.data.source import Record, Source
from netweave.training.data.transforms.arithmetic import read_means

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WARP, SQUARE = "warp", "square"

CHANNELS = 3
"""Of the images, which are decoded in colour (``CV_LOAD_IMAGE_COLOR``)."""

HEAD = 6
"""Lines before the windows of an image."""

MAX_NUMBER = 1e6
"""Corners, classes and overlaps are less: no image has sides of a million pixels."""

MAX_DIGITS = 10
"""Of the number of windows of an image; Python takes a second for 100,000 digits and refuses 5,000."""


@dataclass(frozen=True, slots=True)
class Window:
    """A rectangle of an image, its corners included, and the class of what is in it.

    Attributes:
        image: Number of the image, from 0.
        label: The class; 0 for background.
        box: x1, y1, x2, y2 in pixels.
        line: Where the window file has it, from 1, for messages.
    """

    image: int
    label: float
    box: tuple[int, int, int, int]
    line: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The part of an image cut out for a window, and its place in the result, in pixels.

    Attributes:
        rows: First and last row of the image.
        columns: First and last column.
        size: Height and width that they are scaled to.
        at: Row and column of the result where they go.
    """

    rows: tuple[int, int]
    columns: tuple[int, int]
    size: tuple[int, int]
    at: tuple[int, int]


class Windows(Source):
    """Windows drawn with replacement: the last ``fg_fraction`` of each batch are things, the rest background.

    Args:
        path: The window file: for each image ``# number``, its file, channels, height, width, the number of
            windows, and for each of these class, overlap, and corners x1 y1 x2 y2.
        batch_size: Records in a batch.
        crop_size: Side of the result.
        mirror: Whether every other window, drawn, is mirrored.
        fg_threshold: Least overlap of a thing.
        bg_threshold: Overlaps below are background.
        fg_fraction: Share of things in a batch.
        context_pad: Pixels of the result, on each side, that show what is around the window.
        crop_mode: ``warp`` or ``square`` (the longer side for both).
        root_folder: Put before each file's name as it is.
        mean_file: Means, of which the centre is subtracted.
        mean_values: One mean, or one for each channel.
        scale: What the numbers are multiplied by.
        urls: URLs that the file may name, or beginnings of them; None for any.

    Raises:
        ReadError: The file is missing or of another kind, or has no things or no background.
        UsageError: The crop has no room for its context.
    """

    images = True
    endless = True

    def __init__(
        self,
        path: str,
        batch_size: int,
        crop_size: int,
        mirror: bool = False,
        fg_threshold: float = 0.5,
        bg_threshold: float = 0.5,
        fg_fraction: float = 0.25,
        context_pad: int = 0,
        crop_mode: str = WARP,
        root_folder: str = "",
        mean_file: str = "",
        mean_values: Sequence[float] = (),
        scale: float = 1.0,
        urls: Sequence[str] | None = None,
    ) -> None:
        self.place = path
        if 2 * context_pad >= crop_size:
            raise UsageError(
                f"{path}: context_pad {context_pad} leaves nothing of a crop of {crop_size} for the window; "
                f"expected less than {crop_size / 2:g}"
            )
        self._files: list[str] = []
        self._things: list[Window] = []
        self._background: list[Window] = []
        for window, overlap in self._read(path, root_folder):
            if overlap >= fg_threshold:
                self._things.append(window)
            elif overlap < bg_threshold:
                self._background.append(replace(window, label=0.0))
        self._num_background = batch_size - int(np.float32(batch_size) * np.float32(fg_fraction))
        self._batch_size, self._side, self._mirror, self._scale = batch_size, crop_size, mirror, scale
        self._pad, self._square = context_pad, crop_mode == SQUARE
        self._means = _means(mean_file, mean_values, crop_size)
        for found, wanted, what in (
            (self._things, batch_size - self._num_background, f"overlap {fg_threshold:g} or more"),
            (self._background, self._num_background, f"overlap below {bg_threshold:g}"),
        ):
            if wanted and not found:
                raise ReadError(f"has no windows with {what}, but a batch needs {wanted}", place=path)
        for name in self._files if urls is not None else ():
            require_allowed(name, urls or (), path)

    def __len__(self) -> int:
        return len(self._things) + len(self._background)

    def read(self, index: int) -> Record:
        """Return a window and its class; which one is drawn follows from the number of the record.

        Raises:
            ReadError: The image cannot be read, or the window does not fit in it.
        """
        generator = np.random.default_rng([index])
        is_thing = index % self._batch_size >= self._num_background
        windows = self._things if is_thing else self._background
        window = windows[int(generator.integers(len(windows)))]
        mirrored = self._mirror and bool(generator.integers(2))
        file = self._files[window.image]
        pixels = decode(read_file(file), "bgr", lambda: file)
        try:
            cropped = self.cut(pixels, window.box, mirrored=mirrored)
        except ValueError as error:
            corners = " ".join(map(str, window.box))
            height, width = pixels.shape[:2]
            raise ReadError(
                f"the window {corners} (x1 y1 x2 y2) of {file}, which has {width} x {height} pixels, "
                f"{error}; correct the window or remove its line",
                place=f"{self.place}:{window.line}",
            ) from error
        return cropped, np.asarray(window.label, np.float32)

    def cut(self, pixels: np.ndarray, box: tuple[int, int, int, int], *, mirrored: bool) -> np.ndarray:
        """Return a window of an image, scaled, less the means; what lies outside the image is zero.

        Raises:
            ValueError: The window does not fit in the image, or nothing of it is left after scaling.
        """
        if box[0] > box[2] or box[1] > box[3]:
            raise ValueError("has its corners in the wrong order")
        cut = place(box, pixels.shape[:2], self._side, self._pad, square=self._square)
        # a slice would count negative numbers from the end, and cut others off, where Caffe's CHECKs fail
        for (first, last), size in zip((cut.rows, cut.columns), pixels.shape[:2], strict=True):
            if not 0 <= first <= last < size:
                raise ValueError("is not inside the image")
        region = pixels[cut.rows[0] : cut.rows[1] + 1, cut.columns[0] : cut.columns[1] + 1]
        height, width = cut.size
        region = scaled(region, height, width)
        top, left = cut.at
        if mirrored:
            region, left = region[:, ::-1], self._side - width - left
        out = np.zeros((self._side, self._side, pixels.shape[2]), np.float32)
        rows, columns = slice(top, top + height), slice(left, left + width)
        means = self._means[rows, columns] if self._means.ndim == 3 else self._means
        out[rows, columns] = (region.astype(np.float32) - means) * np.float32(self._scale)
        return out

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: window {index} of the run"

    def _read(self, path: str, root: str) -> Iterator[tuple[Window, float]]:
        lines = list(lines_of(path))
        at = 0
        while at < len(lines):
            head = [line for _, line in lines[at : at + HEAD]]
            _expect(
                len(head) == HEAD and head[0].startswith("#") and _is_count(head[-1].strip()),
                path,
                *lines[at],
            )
            self._files.append(root + head[1].strip())
            count = int(head[-1])
            for number, line in lines[at + HEAD : at + HEAD + count]:
                fields = line.split()
                _expect(len(fields) == 6 and all(map(_is_number, fields)), path, number, line)
                x1, y1, x2, y2 = (int(float(corner)) for corner in fields[2:])
                window = Window(len(self._files) - 1, float(fields[0]), (x1, y1, x2, y2), number)
                yield window, float(fields[1])
            at += HEAD + count


def _expect(good: bool, path: str, number: int, line: str) -> None:
    if not good:
        raise ReadError(
            f"found {line!r}, expected a window file: # number, file, channels, height, width, number of "
            "windows, and each as class overlap x1 y1 x2 y2",
            place=f"{path}:{number}",
        )


def _is_count(text: str) -> bool:
    return text.isdecimal() and len(text) < MAX_DIGITS


def _is_number(text: str) -> bool:
    try:
        return abs(float(text)) < MAX_NUMBER
    except ValueError:
        return False


def place(box: tuple[int, int, int, int], size: tuple[int, int], side: int, pad: int, *, square: bool) -> Cut:
    """Return what is cut out for a window, and where it goes.

    Args:
        box: x1, y1, x2, y2, in pixels, the corners included.
        size: Height and width of the image.
        side: Of the result.
        pad: Pixels of the result around the window.
        square: Whether the window is made a square first.
    """
    x1, y1, x2, y2 = box
    if not pad and not square:
        return Cut((y1, y2), (x1, x2), (side, side), (0, 0))
    context = side / (side - 2 * pad)
    half = np.array([y2 - y1 + 1, x2 - x1 + 1]) / 2
    centre = np.array([y1, x1]) + half
    half = np.full(2, half.max()) if square else half
    first, last = _round(centre - half * context), _round(centre + half * context)
    whole = last - first + 1
    before = np.maximum(0, -first)
    after = np.maximum(0, last - np.array(size) + 1)
    first, last = first + before, last - after
    factor = side / whole
    at = _round(before * factor)
    scaled = np.minimum(_round((last - first + 1) * factor), side - at)
    rows, columns = ((int(a), int(b)) for a, b in zip(first, last, strict=True))
    return Cut(rows, columns, (int(scaled[0]), int(scaled[1])), (int(at[0]), int(at[1])))


def _round(values: np.ndarray) -> np.ndarray:
    """Round halves away from zero, as C does."""
    rounded: np.ndarray = np.sign(values) * np.floor(np.abs(values) + 0.5)
    return rounded.astype(int)


def _means(file: str, values: Sequence[float], side: int) -> np.ndarray:
    if not file:
        if len(values) not in {0, 1, CHANNELS}:
            raise UsageError(f"{len(values)} mean values, expected 1 or one for each of {CHANNELS} channels")
        return np.asarray(values or (0.0,), np.float32)
    means = read_means(file).astype(np.float32)
    if means.shape[2] not in {1, CHANNELS}:
        raise ReadError(f"has {means.shape[2]} channels, expected {CHANNELS} as the images", place=file)
    top, left = ((size - side) // 2 for size in means.shape[:2])
    if min(top, left) < 0:
        raise ReadError(
            f"is {means.shape[0]} x {means.shape[1]}, smaller than the crop of {side}", place=file
        )
    return means[top : top + side, left : left + side]
