"""Transforms of values and colors."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import ClassVar

import numpy as np

from netweave.errors import ReadError
from netweave.files.library_errors import reading
from netweave.formats.caffe import read_blob
from netweave.formats.mxnet.ndarray import is_arrays, read_arrays
from netweave.runtime.images.decode import opencv
from netweave.training.data.kvfile import read_mean_record
from netweave.training.data.location import local_copy, read_file
from netweave.training.data.transform import Arithmetic, Geometric, Image, transform
from netweave.training.settings import require


@transform("subtract")
@dataclass(frozen=True, slots=True, kw_only=True)
class Subtract(Arithmetic):
    """Subtracts one value, one for each channel, or an image of means.

    Attributes:
        values: One value, or one for each channel.
        path: A file of means: ``.binaryproto`` of Caffe, MXNet's ``mean_img``, or SINGA's. It has the size of
            the decoded images (Caffe), or that of what the geometric transforms leave (MXNet).
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
            window = _window(self._means, values, image, f"the means of {self.path}")
            np.subtract(values, window.astype(out.dtype), out=out)
        else:
            by_channel(np.subtract, values, self._means, out)


@transform("divide")
@dataclass(frozen=True, slots=True, kw_only=True)
class Divide(Arithmetic):
    """Divides by an image of deviations (SINGA's ``std_file``).

    Attributes:
        path: The file; as one of means.
    """

    path: str
    _deviations: np.ndarray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        deviations = read_means(self.path)
        if not np.all(deviations):
            raise ReadError("has deviations of zero, by which nothing can be divided", place=self.path)
        object.__setattr__(self, "_deviations", deviations)

    def compute(
        self, values: np.ndarray, out: np.ndarray, image: Image | None, generator: np.random.Generator
    ) -> None:
        """Compute from some numbers those of the batch."""
        window = _window(self._deviations, values, image, f"the deviations of {self.path}")
        np.divide(values, window.astype(out.dtype), out=out)


def _window(numbers: np.ndarray, values: np.ndarray, image: Image | None, what: str) -> np.ndarray:
    """Return those of an image of numbers that belong to the pixels that are left.

    Raises:
        ValueError: It is of another size.
    """
    shape = values.shape[-numbers.ndim :]
    if image is not None and values.ndim == 1 and numbers.size == values.size:
        return numbers.transpose(2, 0, 1).reshape(-1) if numbers.ndim == 3 else numbers.reshape(-1)
    window = numbers
    if window.shape != shape and image is not None and window.shape == image.whole:
        window = window[image.top : image.top + shape[0], image.left : image.left + shape[1]]
    if window.shape != shape:
        whole = "" if image is None or image.whole == shape else f" of an image of {image.whole}"
        raise ValueError(f"is {shape}{whole}, and {what} are {window.shape}")
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
    """Return the means of a file, (height, width, channels); those of SINGA's rows of numbers have one axis.

    Raises:
        ReadError: The file is missing, or holds no image.
    """
    with reading(path):
        return _parse_means(path, local_copy(path))


def _parse_means(path: str, local: Path) -> np.ndarray:
    content = read_file(str(local))
    singas = read_mean_record(content, path)
    if singas is not None:
        return np.ascontiguousarray(singas.transpose(1, 2, 0)) if singas.ndim == 3 else singas.reshape(-1)
    arrays = list(read_arrays(local).values()) if is_arrays(content[:16]) else [read_blob(local)]
    shapes = [array.shape for array in arrays]
    if not arrays or arrays[0].ndim < 3 or arrays[0].size != math.prod(shapes[0][-3:]):
        raise ReadError(f"holds arrays of {shapes}, expected one image of means", place=path)
    return np.ascontiguousarray(arrays[0].reshape(shapes[0][-3:]).transpose(1, 2, 0))


PCA = np.array(
    [
        [55.46 * -0.5675, 4.794 * 0.7192, 1.148 * 0.4009],
        [55.46 * -0.5808, 4.794 * -0.0045, 1.148 * -0.8140],
        [55.46 * -0.5836, 4.794 * -0.6948, 1.148 * 0.4203],
    ]
)
"""Principal axes of ImageNet's colours times their lengths; rows are red, green, blue."""


def three_channels(image: Image) -> np.ndarray:
    """Return the pixels of an image that has three channels.

    Raises:
        ValueError: It has another number of them.
    """
    if image.pixels.shape[2] != 3:
        raise ValueError(f"has {image.pixels.shape[2]} channels, colour transforms need 3")
    return np.ascontiguousarray(image.pixels)


@transform("reverse_channels")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReverseChannels(Geometric):
    """Makes RGB of BGR, and BGR of RGB."""

    keeps_boxes: ClassVar[bool] = True

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        image.pixels = np.ascontiguousarray(image.pixels[:, :, ::-1])


@transform("color_jitter")
@dataclass(frozen=True, slots=True, kw_only=True)
class ColorJitter(Geometric):
    """Multiplies brightness, contrast and saturation by 1 plus or minus a share, in a random order.

    For BGR, and with the weights of red and blue changed, as MXNet takes them.
    """

    random: ClassVar[bool] = True

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        cv2 = opencv()
        pixels = three_channels(image)
        factors = [
            1.0 + generator.uniform(-share, share)
            for share in (self.brightness, self.contrast, self.saturation)
        ]
        for kind in generator.permutation(3):
            factor = factors[kind]
            if kind == 0:
                pixels = cv2.addWeighted(pixels, factor, pixels, 0.0, 0.0)
                continue
            gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
            if kind == 1:
                pixels = cv2.addWeighted(pixels, factor, pixels, 0.0, (1.0 - factor) * cv2.mean(gray)[0])
            else:
                grays = cv2.cvtColor(gray, cv2.COLOR_GRAY2BGR)
                pixels = cv2.addWeighted(pixels, factor, grays, 1.0 - factor, 0.0)
        image.pixels = pixels


@transform("hls_jitter")
@dataclass(frozen=True, slots=True, kw_only=True)
class HLSJitter(Geometric):
    """Adds whole numbers to hue (0 to 180), lightness and saturation (0 to 255); for BGR."""

    random: ClassVar[bool] = True

    hue: int = 0
    saturation: int = 0
    lightness: int = 0

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        cv2 = opencv()
        limits = (self.hue, self.saturation, self.lightness)
        # the mean of two uniform numbers, one four times as heavy: fewer extremes
        drawn = [(generator.random() + 4.0 * generator.random()) / 5.0 for _ in limits]
        hue, saturation, lightness = (
            int(share * limit * 2 - limit) for share, limit in zip(drawn, limits, strict=True)
        )
        hls = cv2.cvtColor(three_channels(image), cv2.COLOR_BGR2HLS).astype(np.int16)
        hls += np.array([hue, lightness, saturation], np.int16)
        np.clip(hls, 0, np.array([180, 255, 255], np.int16), out=hls)
        image.pixels = cv2.cvtColor(hls.astype(np.uint8), cv2.COLOR_HLS2BGR)


@transform("pca_noise")
@dataclass(frozen=True, slots=True, kw_only=True)
class PCANoise(Geometric):
    """Adds to all pixels one colour, drawn along the principal axes of ImageNet's; for BGR."""

    random: ClassVar[bool] = True

    level: float

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        red_green_blue = PCA @ generator.normal(0.0, self.level, 3)
        moved = np.trunc(three_channels(image) + red_green_blue[::-1])
        image.pixels = np.clip(moved, 0, 255).astype(np.uint8)
