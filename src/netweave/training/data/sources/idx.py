"""MNIST's idx files."""

from __future__ import annotations

import struct

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.location import read_file
from netweave.training.data.sources.arrays import Arrays

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
