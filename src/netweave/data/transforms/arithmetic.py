"""Means, scales and the jitter of contrast: arithmetic on the numbers of a batch."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netweave.data.location import local_copy
from netweave.data.transform import Arithmetic, transform
from netweave.errors import ReadError
from netweave.formats.caffe import read_blob
from netweave.formats.mxnet.ndarray import is_arrays, read_arrays
from netweave.job.make import require

if TYPE_CHECKING:
    from netweave.data.transform import Image


@transform("subtract")
@dataclass(frozen=True, slots=True, kw_only=True)
class Subtract(Arithmetic):
    """Subtracts one value, one for each channel, or an image of means.

    Attributes:
        values: One value, or one for each channel.
        path: A file of means: ``.binaryproto`` of Caffe, or MXNet's ``mean_img``. It has the size of the
            decoded images (Caffe), or that of what the geometric transforms leave (MXNet).
    """

    values: tuple[float, ...] = ()
    path: str = ""
    _means: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        require(bool(self.values) != bool(self.path), "give either values or path")
        means = read_means(self.path) if self.path else np.asarray(self.values, np.float64)
        object.__setattr__(self, "_means", means)

    def compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        """Compute from some numbers those of the batch."""
        if self.path:
            np.subtract(values, self._window(values, image).astype(out.dtype), out=out)
        else:
            by_channel(np.subtract, values, self._means, out)

    def _window(self, values: np.ndarray, image: Image | None) -> np.ndarray:
        """Return the means of the pixels that are left."""
        shape = values.shape[-3:]
        window = self._means
        if window.shape != shape and image is not None and window.shape == image.whole:
            window = window[image.top : image.top + shape[0], image.left : image.left + shape[1]]
        if window.shape != shape:
            whole = "" if image is None or image.whole == shape else f" of an image of {image.whole}"
            raise ValueError(f"is {shape}{whole}, and the means of {self.path} are {window.shape}")
        return window[:, ::-1] if image is not None and image.mirrored else window


@transform("scale")
@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(Arithmetic):
    """Multiplies by a factor, or by one for each channel."""

    factor: float | tuple[float, ...]

    def compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        """Compute from some numbers those of the batch."""
        by_channel(np.multiply, values, np.atleast_1d(np.asarray(self.factor, np.float64)), out)


@transform("contrast_jitter")
@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastJitter(Arithmetic):
    """Multiplies by 1 plus or minus ``contrast`` and adds up to plus or minus ``illumination`` (MXNet)."""

    random: ClassVar[bool] = True

    contrast: float = 0.0
    illumination: float = 0.0

    def compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        """Compute from some numbers those of the batch."""
        factor = 1.0 + generator.uniform(-self.contrast, self.contrast)
        np.multiply(values, out.dtype.type(factor), out=out)
        out += out.dtype.type(generator.uniform(-self.illumination, self.illumination))


def by_channel(operation: np.ufunc, values: np.ndarray, by: np.ndarray, out: np.ndarray) -> None:
    """Compute with one number, or one for each channel (the last axis).

    Raises:
        ValueError: There are not as many numbers as channels.
    """
    if by.size == 1:
        operation(values, out.dtype.type(by[0]), out=out)
        return
    if values.ndim < 3 or by.size != values.shape[-1]:
        raise ValueError(f"has the shape {values.shape}, but there are {by.size} values for its channels")
    # by rows of pixels: an inner loop over three channels would take ten times as long
    width, channels = values.shape[-2:]
    rows = (*values.shape[:-2], width * channels)
    operation(values.reshape(rows), np.tile(by.astype(out.dtype), width), out=out.reshape(rows))


@cache
def read_means(path: str) -> np.ndarray:
    """Return the means of a file, (height, width, channels).

    Raises:
        ReadError: The file is missing, or holds no image.
    """
    local = local_copy(path)
    with local.open("rb") as file:
        mxnets = is_arrays(file.read(16))
    arrays = list(read_arrays(local).values()) if mxnets else [read_blob(local)]
    shapes = [array.shape for array in arrays]
    squeezed = arrays[0].reshape(shapes[0][-3:]) if arrays and arrays[0].ndim >= 3 else None
    if squeezed is None:
        raise ReadError(f"holds arrays of {shapes}, expected one image of means", place=path)
    return np.ascontiguousarray(squeezed.transpose(1, 2, 0))
