"""Changes of colour, as MXNet's augmenter makes them: on uint8, rounded and held between 0 and 255."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netweave.runtime.images.decode import opencv
from netweave.training.data.transform import Geometric, transform

if TYPE_CHECKING:
    from netweave.training.data.transform import Image

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
