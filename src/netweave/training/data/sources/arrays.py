"""Sources of plain arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.npy import parse_npy, read_npz
from netweave.training.data.location import read_file, read_text
from netweave.training.data.source import Record, Source


class Arrays(Source):
    """Arrays whose first axis counts the records; the first, if of four axes, holds images (N, C, H, W).

    Args:
        arrays: One for each part of a record.
        names: What they are called, for messages.
        images: Whether the first holds images; None to tell by its axes.

    Raises:
        UsageError: They have different numbers of records, or none.
    """

    def __init__(self, *arrays: Any, names: Sequence[str] = (), images: bool | None = None) -> None:
        self._arrays = tuple(np.asarray(array) for array in arrays)
        self.place = " and ".join(names) or "arrays in memory"
        four_axes = bool(self._arrays) and self._arrays[0].ndim == 4
        self.images = four_axes if images is None else images
        counts = [len(array) if array.ndim else 0 for array in self._arrays]
        if len(set(counts)) != 1 or not counts[0]:
            raise UsageError(f"{self.place}: have {counts} records, expected equal numbers, at least 1")

    def __len__(self) -> int:
        return len(self._arrays[0])

    def read(self, index: int) -> Record:
        """Return a record; an image is (height, width, channels)."""
        first, *rest = (array[index] for array in self._arrays)
        return (first.transpose(1, 2, 0) if self.images else first, *rest)

    def read_many(self, indices: np.ndarray) -> Record:
        """Return several records; images are (number, height, width, channels)."""
        first, *rest = (array[indices] for array in self._arrays)
        return (first.transpose(0, 2, 3, 1) if self.images else first, *rest)


class NumpyFiles(Arrays):
    """Arrays of ``.npy`` files, or of one ``.npz`` file by name.

    Args:
        paths: The ``.npy`` files, one for each part; or one ``.npz`` file.
        names: Names of the arrays in a ``.npz`` file, one for each part; all in their order if empty.

    Raises:
        ReadError: A file is missing or of another kind, or has no such array.
    """

    def __init__(self, paths: Sequence[str], names: Sequence[str] = ()) -> None:
        arrays: list[np.ndarray] = []
        for path in paths:
            arrays.extend(_load(path, names))
        try:
            super().__init__(*arrays, names=paths)
        except UsageError as error:
            raise ReadError(str(error).partition(": ")[2], place=" and ".join(paths)) from error


def _load(path: str, names: Sequence[str]) -> list[np.ndarray]:
    content = read_file(path)
    if not content.startswith(b"PK"):
        return [parse_npy(content, place=path)]
    arrays = read_npz(content, place=path)
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ReadError(f"has no array {missing[0]!r}, only {', '.join(arrays)}", place=path)
    return [arrays[name] for name in names or arrays]


class CSV(Arrays):
    """One record a row: numbers with commas between.

    Args:
        data: The file of the first part.
        data_shape: Its sizes, without the number of rows.
        label: The file of labels; None for zeros, as MXNet gives then.
        label_shape: Their sizes.

    Raises:
        ReadError: A file is missing, has something that is no number, or rows of another length.
    """

    def __init__(
        self,
        data: str,
        data_shape: Sequence[int],
        label: str | None = None,
        label_shape: Sequence[int] = (1,),
    ) -> None:
        first = _rows(data, data_shape)
        labels = np.zeros(len(first), np.float32) if label is None else _rows(label, label_shape)
        if labels.shape[1:] == (1,):
            labels = labels[:, 0]
        if len(labels) != len(first):
            raise ReadError(f"has {len(labels)} rows, and {data} has {len(first)}", place=str(label))
        super().__init__(first, labels, names=(data,) if label is None else (data, label))


def _rows(path: str, shape: Sequence[int]) -> np.ndarray:
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    if not lines:
        raise ReadError("has no rows", place=path)
    try:
        rows = np.loadtxt(lines, np.float32, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ReadError(str(error), place=path) from error
    size = int(np.prod(shape))
    if rows.size == 0 or rows.shape[1] != size:
        raise ReadError(f"has an array of {rows.shape}, expected rows of {size} numbers", place=path)
    return rows.reshape(-1, *shape)


Draw = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, Any]], np.ndarray]

DRAWS: dict[str, Draw] = {
    "constant": lambda generator, shape, filler: np.full(shape, filler.get("value", 0.0), np.float32),
    "uniform": lambda generator, shape, filler: generator.uniform(
        filler.get("min", 0.0), filler.get("max", 1.0), shape
    ),
    "gaussian": lambda generator, shape, filler: generator.normal(
        filler.get("mean", 0.0), filler.get("std", 1.0), shape
    ),
}
"""The fillers that make sense for records."""


class Filled(Source):
    """Records without an end: constants, or numbers drawn anew for each.

    Args:
        shapes: Sizes of each part of a record, without the batch.
        fillers: One for each part, or one for all: ``type`` and its numbers by Caffe's names.
        place: Where the source file says so, for messages.

    Raises:
        UnsupportedError: There is no such filler for records.
    """

    endless = True

    def __init__(
        self, shapes: Sequence[Sequence[int]], fillers: Sequence[Mapping[str, Any]], place: str = ""
    ) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._fillers = [fillers[min(index, len(fillers) - 1)] for index in range(len(shapes))]
        self.place = place
        self.images = len(self._shapes[0]) == 3
        for filler in self._fillers:
            if filler["type"] not in DRAWS:
                raise UnsupportedError(
                    f"fills records with {filler['type']!r}, expected {', '.join(DRAWS)}", place=place
                )

    def __len__(self) -> int:
        return 1

    def read(self, index: int) -> Record:
        """Return a record; what is drawn for it follows from its number."""
        parts = []
        for number, (shape, filler) in enumerate(zip(self._shapes, self._fillers, strict=True)):
            drawn = DRAWS[filler["type"]](np.random.default_rng([index, number]), shape, filler)
            parts.append(np.asarray(drawn, np.float32))
        if self.images:
            parts[0] = parts[0].transpose(1, 2, 0)
        return tuple(parts)


TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Types of elements by the third byte of the magic number."""


class MNIST(Arrays):
    """Images (1, rows, columns) and labels of two idx files, plain or ``.gz``.

    Args:
        image: The file of images, ``train-images-idx3-ubyte``.
        label: The file of labels, ``train-labels-idx1-ubyte``.
        flat: Give each image as one row of numbers, as MXNet's MNISTIter does if told so.

    Raises:
        ReadError: A file is missing or of another kind, or the two do not fit together.
    """

    def __init__(self, image: str, label: str, flat: bool = False) -> None:
        images, labels = read_idx(image), read_idx(label)
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise ReadError(
                f"holds an array of {images.shape}, and {label} one of {labels.shape}; expected (N, rows, "
                "columns) and (N,)",
                place=image,
            )
        shape = (len(images), -1) if flat else (len(images), 1, *images.shape[1:])
        super().__init__(images.reshape(shape), labels, names=(image, label))


def read_idx(path: str) -> np.ndarray:
    """Return the array of an idx file.

    Raises:
        ReadError: The file is missing, of another kind, or truncated.
    """
    content = read_file(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in TYPES:
        raise ReadError(
            f"begins with {content[:4]!r}, which is not the magic number of an idx file", place=path
        )
    rank = content[3]
    start = 4 + 4 * rank
    if len(content) < start:
        raise ReadError(f"has {len(content)} bytes, expected {start} before the data", place=path)
    shape = struct.unpack_from(f">{rank}I", content, 4)
    dtype = np.dtype(TYPES[content[2]])
    expected = start + int(np.prod(shape, dtype=object)) * dtype.itemsize
    if len(content) != expected:
        raise ReadError(f"has {len(content):,} bytes, expected {expected:,} for {shape}", place=path)
    return np.frombuffer(content, dtype, offset=start).reshape(shape).astype(dtype.newbyteorder("="))


PIXELS = 3 * 32 * 32
LABELS = {"cifar10": 1, "fine": 2, "coarse": 2}
"""Label bytes before the pixels; CIFAR-100 has the coarse label first, then the fine one."""


class CIFAR(Arrays):
    """Images (3, 32, 32) and labels.

    Args:
        paths: The files, in order: ``data_batch_1.bin``, ...
        label: ``cifar10``, or which of CIFAR-100's labels: ``fine`` or ``coarse``.

    Raises:
        ReadError: A file is missing or not a whole number of records.
    """

    color = "rgb"

    def __init__(self, paths: Sequence[str], label: str = "cifar10") -> None:
        if label not in LABELS:
            raise ReadError(f"no label {label!r}, expected {', '.join(LABELS)}", place=", ".join(paths))
        size = LABELS[label] + PIXELS
        contents = [np.frombuffer(read_file(path), np.uint8) for path in paths]
        for path, content in zip(paths, contents, strict=True):
            if not content.size or content.size % size:
                raise ReadError(
                    f"has {content.size:,} bytes, expected a multiple of {size:,} (in CIFAR-100 each record "
                    "has two labels)",
                    place=path,
                )
        records = np.concatenate(contents).reshape(-1, size)
        labels = records[:, 1 if label == "fine" else 0]
        super().__init__(records[:, -PIXELS:].reshape(-1, 3, 32, 32), labels, names=paths)
