"""``gluon.data.vision.transforms``: blocks of images (height, width, channels)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.mxnet import image
from netweave.mxnet import ndarray as nd
from netweave.mxnet.base import unsupported
from netweave.mxnet.gluon.block import Block
from netweave.mxnet.gluon.nn.basic import Sequential
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray

GREY = (0.299, 0.587, 0.114)
"""Shares of red, green and blue in the lightness of a pixel."""


class Compose(Sequential):
    """Functions one after the other."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        super().__init__()
        self._all = list(transforms)
        self.add(*(one for one in self._all if isinstance(one, Block)))

    def forward(self, x: Any) -> Any:
        """Apply them."""
        for one in self._all:
            x = one(x)
        return x


class Transform(Block):
    """A function of an image, by its settings.

    Args:
        settings: What the function is called with, in the order of MXNet's signature.
    """

    def __init__(self, *settings: Any) -> None:
        super().__init__()
        self._settings = settings

    def forward(self, x: NDArray) -> NDArray:
        """Return the image as it becomes."""
        return self._change(x, *self._settings)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        """Return the image as it becomes with some settings."""
        raise NotImplementedError


class ToTensor(Transform):
    """From bytes (height, width, channels) to numbers from 0 to 1 (channels, height, width)."""

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        axes = (2, 0, 1) if x.ndim == 3 else (0, 3, 1, 2)
        return (x.astype("float32") / 255.0).transpose(axes)


class Cast(Transform):
    """Another element type."""

    def __init__(self, dtype: Any = "float32") -> None:
        super().__init__(dtype)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        return x.astype(settings[0])


class Normalize(Transform):
    """(image - mean) / std, by channel."""

    def __init__(self, mean: Any = 0.0, std: Any = 1.0) -> None:
        super().__init__(*(np.asarray(one, np.float32).reshape(-1, 1, 1) for one in (mean, std)))

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        mean, std = map(nd.array, settings)
        made: NDArray = (x - mean) / std
        return made


class Resize(Transform):
    """Another size; the shorter side alone with ``keep_ratio``."""

    def __init__(self, size: Any, keep_ratio: bool = False, interpolation: int = 1) -> None:
        super().__init__(size, keep_ratio, interpolation)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        size, keeps_ratio, interpolation = settings
        if keeps_ratio and isinstance(size, int):
            return image.resize_short(x, size, interpolation)
        return image.imresize(x, *_pair(size), interpolation)


class CenterCrop(Transform):
    """The middle of an image."""

    def __init__(self, size: Any, interpolation: int = 1) -> None:
        super().__init__(_pair(size), interpolation)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        return image.center_crop(x, *settings)[0]


class CropResize(Transform):
    """A window of an image or of several, in another size if there is one."""

    def __init__(
        self, x: int, y: int, width: int, height: int, size: Any = None, interpolation: int | None = None
    ) -> None:
        super().__init__((x, y, width, height), size, 1 if interpolation is None else interpolation)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        (left, top, width, height), size, interpolation = settings
        if x.ndim == 4:
            windows: NDArray = nd.stack(*(self._change(one, *settings) for one in x))
            return windows
        window: NDArray = x[top : top + height, left : left + width]
        return window if size is None else image.imresize(window, *_pair(size), interpolation)


class RandomResizedCrop(Transform):
    """A random window of random area and shape, in one size."""

    def __init__(
        self,
        size: Any,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        interpolation: int = 1,
    ) -> None:
        super().__init__(_pair(size), scale, ratio, interpolation)

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        return image.random_size_crop(x, *settings)[0]


class RandomFlipLeftRight(Transform):
    """Left and right exchanged in every second image."""

    axis = -2

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        return x.flip(axis=x.ndim + self.axis) if random.generator().random() < 0.5 else x


class RandomFlipTopBottom(RandomFlipLeftRight):
    """Top and bottom exchanged in every second image."""

    axis = -3


class _Jitter(Transform):
    """A random factor from max(0, 1 - range) to 1 + range on the difference to something darker or duller."""

    def _change(self, x: NDArray, *settings: Any) -> NDArray:
        (reach,) = settings
        factor = random.generator().uniform(max(0.0, 1.0 - reach), 1.0 + reach)
        pixels = x.asnumpy()
        wide = pixels.astype(np.float32)
        mixed = wide * factor + (1 - factor) * self._base(wide)
        is_whole = pixels.dtype.kind in "iu"
        return nd.array(np.trunc(np.clip(mixed, 0, 255)) if is_whole else mixed, dtype=pixels.dtype)

    def _base(self, pixels: np.ndarray) -> Any:
        """Return what a factor of 0 makes of the image: black."""
        return np.float32(0)


class RandomBrightness(_Jitter):
    """A random factor on all pixels."""


class RandomContrast(_Jitter):
    """A random factor on the differences to the mean lightness."""

    def _base(self, pixels: np.ndarray) -> Any:
        return (pixels @ np.array(GREY, np.float32)).mean()


class RandomSaturation(_Jitter):
    """A random factor on the differences to what MXNet takes for grey.

    Its loop over the channels (``image_random-inl.h``) keeps the last product alone: the share of blue.
    """

    def _base(self, pixels: np.ndarray) -> Any:
        return pixels[..., 2:] * np.float32(GREY[2])


class RandomColorJitter(Block):
    """Random brightness, contrast and saturation, in a random order."""

    def __init__(
        self, brightness: float = 0, contrast: float = 0, saturation: float = 0, hue: float = 0
    ) -> None:
        super().__init__()
        if hue:
            raise unsupported("hue of RandomColorJitter", "leave it out, or change the hue before training")
        kinds = ((RandomBrightness, brightness), (RandomContrast, contrast), (RandomSaturation, saturation))
        self._all = [kind(reach) for kind, reach in kinds if reach]

    def forward(self, x: NDArray) -> NDArray:
        """Apply them."""
        for number in random.generator().permutation(len(self._all)):
            x = self._all[number](x)
        return x


class RandomApply(Block):
    """Transforms that are applied together, or not at all."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self._transforms, self._share = transforms, p

    def forward(self, x: NDArray) -> NDArray:
        """Apply them or not."""
        return self._transforms(x) if random.generator().random() < self._share else x


def _pair(size: Any) -> tuple[int, int]:
    """Return width and height."""
    return (size, size) if isinstance(size, int) else tuple(size)
