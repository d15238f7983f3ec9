"""Sources of derived records: windows of images, characters of a text, iterables, parts of a file."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.job import require_allowed
from netweave.runtime.images.decode import decode, scaled
from netweave.training.data.item import Item
from netweave.training.data.location import lines_of, read_file, read_text
from netweave.training.data.source import EndOfDataError, Record, Source
from netweave.training.data.transforms.arithmetic import read_means

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


class Characters(Source):
    """Runs of characters by their numbers in a vocabulary: ``char_rnn.cc``.

    The text is cut into ``batchsize`` streams of equal length. Record n is run n // batchsize of stream
    n % batchsize: ``unroll_len`` characters, and the one after the last. The next batch goes on where the one
    before ended. A run that would read beyond its stream reads on in the text, as in SINGA; the last runs,
    which would read beyond the text, are left out.

    Args:
        path: The text.
        vocab_path: The characters in the order of their numbers, each once.
        unroll_len: Characters of a run.
        batchsize: Number of streams.

    Raises:
        ReadError: A file is missing, the text has a character that is not in the vocabulary, or is too short.
    """

    batch_axis = 1

    def __init__(self, path: str, vocab_path: str, unroll_len: int = 50, batchsize: int = 1) -> None:
        self.place = path
        text = read_text(path)
        self._numbers = _numbers(text, read_vocabulary(vocab_path), place=path)
        self._streams, self._run = batchsize, unroll_len
        self._stride = len(text) // max(1, batchsize)
        last = len(text) - (batchsize - 1) * self._stride - (unroll_len + 1)
        steps = min(-(-self._stride // max(1, unroll_len)), last // max(1, unroll_len) + 1)
        if min(batchsize, unroll_len) < 1 or steps < 1 or self._stride <= unroll_len:
            raise ReadError(
                f"has {len(text):,} characters, too few for {batchsize} streams of more than {unroll_len}",
                place=path,
            )
        self._steps = steps

    def __len__(self) -> int:
        return self._steps * self._streams

    def read(self, index: int) -> Record:
        """Return the numbers of the characters of a run, and of the one after."""
        step, stream = divmod(index, self._streams)
        start = stream * self._stride + step * self._run
        return (self._numbers[start : start + self._run + 1],)


def read_vocabulary(path: str) -> str:
    """Return the characters of a vocabulary in the order of their numbers.

    Raises:
        ReadError: The file is missing, empty, or has a character twice.
    """
    characters = read_text(path)
    counts = Counter(characters)
    twice = next((one for one, count in counts.items() if count > 1), None)
    if twice is not None or not characters:
        what = f"has the character {twice!r} twice" if twice else "is empty"
        raise ReadError(f"{what}, expected each character of the text once", place=path)
    return characters


def _numbers(text: str, vocabulary: Sequence[str], *, place: str) -> np.ndarray:
    numbers = {character: number for number, character in enumerate(vocabulary)}
    missing = next((at for at, character in enumerate(text) if character not in numbers), None)
    if missing is not None:
        line = text.count("\n", 0, missing) + 1
        raise ReadError(f"the character {text[missing]!r} is not in the vocabulary", place=f"{place}:{line}")
    return np.fromiter((numbers[character] for character in text), np.float32, len(text))


class _Parted(Source):
    """Records that somebody's object gives: a tuple of parts, a mapping of parts, or one array each."""

    stored = False

    def __init__(self, place: str, names: Sequence[str]) -> None:
        self.place = place
        self._names = tuple(names)

    def parts(self, item: Any, index: int) -> Record:
        """Return the parts of a record; a first one of three axes is an image (channels, height, width)."""
        if isinstance(item, Mapping):
            missing = [name for name in self._names if name not in item]
            if missing:
                names = ", ".join(map(str, item))
                raise ReadError(f"has no part {missing[0]!r}, only {names}", place=self.describe(index))
            item = [item[name] for name in self._names or item]
        parts = item if isinstance(item, tuple | list) else [item]
        first, *rest = (np.asarray(part) for part in parts)
        return (first.transpose(1, 2, 0) if first.ndim == 3 else first, *rest)


class Indexed(_Parted):
    """Records of an object with ``len`` and ``[]``, read from several threads.

    Args:
        records: The object.
        names: Which parts of a mapping are taken, in order; all if empty.
    """

    def __init__(self, records: Any, names: Sequence[str] = ()) -> None:
        super().__init__(f"{type(records).__name__} in memory", names)
        self._records = records
        self.images = self.peek()[0].ndim == 3

    def __len__(self) -> int:
        return len(self._records)

    def read(self, index: int) -> Record:
        """Return a record."""
        return self.parts(self._records[index], index)


class Iterated(_Parted):
    """Records of an iterable, taken in its own order by one thread at a time.

    An iterable that can be begun again is, whenever it ends. A run that goes on in the middle goes through
    it up to there.

    Args:
        records: The iterable.
        names: Which parts of a mapping are taken, in order; all if empty.
    """

    endless = True

    def __init__(self, records: Iterable[Any], names: Sequence[str] = ()) -> None:
        super().__init__(f"{type(records).__name__} of Python", names)
        self._lock = threading.Lock()
        self._records = records
        self._iterator = iter(records)
        self._again = self._iterator is not records
        self._taken = 0
        self._waiting: dict[int, Any] = {}
        self.images = self.peek()[0].ndim == 3

    def __len__(self) -> int:
        raise TypeError("the number of records is unknown")

    def peek(self) -> Record:
        """Return the first record, which can be read again afterwards."""
        with self._lock:
            self._take_up_to(0)
            return self.parts(self._waiting[0], 0)

    def read(self, index: int) -> Record:
        """Return a record; each can be read once, those before it being kept until they are."""
        with self._lock:
            self._take_up_to(index)
            if index not in self._waiting:
                raise ReadError("was already read once, and cannot be read again", place=self.describe(index))
            item = self._waiting.pop(index)
        return self.parts(item, index)

    def seek(self, index: int) -> None:
        """Go on at a record; those before it will not be asked for."""
        with self._lock:
            self._waiting = {at: item for at, item in self._waiting.items() if at >= index}
            while self._taken < index:
                self._next()

    def _take_up_to(self, index: int) -> None:
        while self._taken <= index:
            item = self._next()
            self._waiting[self._taken - 1] = item

    def _next(self) -> Any:
        for begun in (False, True):
            try:
                item = next(self._iterator)
            except StopIteration:
                if begun or not self._again:
                    break
                self._iterator = iter(self._records)
            else:
                self._taken += 1
                return item
        raise EndOfDataError


class Parts(Source):
    """The records of several sources, one after another; an order shuffles all of them together.

    Args:
        place: What the user calls them.
        sources: The sources, at least one; closed with this.

    Raises:
        ReadError: They hold different kinds of records, or records without an end.
    """

    def __init__(self, place: str, sources: Sequence[Source]) -> None:
        first = sources[0]
        self.place = place
        self._sources = tuple(sources)
        self.images, self.color, self.batch_axis = first.images, first.color, first.batch_axis
        self.remote = any(source.remote for source in sources)
        for source in sources:
            if source.endless or (source.images, source.color) != (first.images, first.color):
                self.close()
                raise ReadError(
                    f"holds records of another kind than {first.place}; all parts must be alike",
                    place=source.place,
                )
        self.groups = tuple(group for source in sources for group in source.groups)
        self._starts = np.cumsum([0, *(len(source) for source in sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, index: int) -> Record:
        """Return a record."""
        source, own = self._of(index)
        return source.read(own)

    def read_many(self, indices: np.ndarray) -> Record | None:
        """Return several records at once, where all parts can, and theirs are alike."""
        parts: list[np.ndarray] = []
        numbers = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            arrays = self._sources[number].read_many(indices[chosen] - self._starts[number])
            if arrays is None:
                return None
            parts = parts or [np.empty((len(indices), *array.shape[1:]), array.dtype) for array in arrays]
            if [(part.shape[1:], part.dtype) for part in parts] != [
                (array.shape[1:], array.dtype) for array in arrays
            ]:
                return None  # one by one, which converts types and says whose shape is another
            for part, array in zip(parts, arrays, strict=True):
                part[chosen] = array
        return tuple(parts)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Return what must be waited for, from each part at once."""
        by_part: dict[int, list[int]] = {}
        for place, index in enumerate(indices):
            by_part.setdefault(self._number(index), []).append(place)
        contents: list[Any] = [None] * len(indices)
        for number, places in by_part.items():
            own = [indices[place] - int(self._starts[number]) for place in places]
            for place, content in zip(places, self._sources[number].fetch(own), strict=True):
                contents[place] = content
        return contents

    def parse(self, index: int, fetched: Any) -> Record:
        """Return a record from what ``fetch`` gave of it."""
        source, own = self._of(index)
        return source.parse(own, fetched)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        source, own = self._of(index)
        return source.item(own)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        source, own = self._of(index)
        return source.describe(own)

    def close(self) -> None:
        """Close all parts."""
        for source in self._sources:
            source.close()

    def _number(self, index: int) -> int:
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def _of(self, index: int) -> tuple[Source, int]:
        number = self._number(index)
        return self._sources[number], index - int(self._starts[number])
