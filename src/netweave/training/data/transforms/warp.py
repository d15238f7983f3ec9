"""MXNet's affine transform: rotation, shear, scale and proportions (image_aug_default.cc)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netweave.runtime.images.decode import opencv_errors
from netweave.runtime.images.scaling import interpolation, require_interpolation
from netweave.training.data.transform import Geometric, transform
from netweave.training.settings import require

if TYPE_CHECKING:
    from netweave.training.data.transform import Image


@transform("warp")
@dataclass(frozen=True, slots=True, kw_only=True)
class Warp(Geometric):
    """Turns, shears and scales around the centre; what is uncovered is filled.

    Attributes:
        max_rotate_angle: Largest turn either way, in whole degrees.
        rotate: A turn that is always made, instead; 0 or less for none.
        rotate_list: Turns of which one is drawn, instead.
        max_shear_ratio: Largest shear either way.
        min_scale: Smallest factor of the size.
        max_scale: Largest factor.
        min_ratio: Smallest width over height, relative to the image's own.
        max_ratio: Largest.
        min_size: Smallest side of the result.
        max_size: Largest side.
        fill: Value of what is uncovered.
        interpolation: How.
    """

    random: ClassVar[bool] = True

    max_rotate_angle: int = 0
    rotate: int = -1
    rotate_list: tuple[int, ...] = ()
    max_shear_ratio: float = 0.0
    min_scale: float = 1.0
    max_scale: float = 1.0
    min_ratio: float = 1.0
    max_ratio: float = 1.0
    min_size: float = 0.0
    max_size: float = 1e10
    fill: int = 255
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        require_interpolation(self.interpolation)
        require(0.0 < self.min_scale <= self.max_scale, f"the scale is {self.min_scale} to {self.max_scale}")
        require(0.0 < self.min_ratio <= self.max_ratio, f"the ratio is {self.min_ratio} to {self.max_ratio}")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        height, width = image.pixels.shape[:2]
        shear = generator.uniform(-self.max_shear_ratio, self.max_shear_ratio)
        angle = math.radians(self._angle(generator))
        scale = generator.uniform(self.min_scale, self.max_scale)
        ratio = generator.uniform(self.min_ratio, self.max_ratio)
        tall = 2.0 * scale / (1.0 + ratio)
        wide = ratio * tall
        new_width, new_height = (
            max(self.min_size, min(self.max_size, scale * side)) for side in (width, height)
        )
        a, b = math.cos(angle), math.sin(angle)
        matrix = np.array(
            [[tall * a - shear * b * wide, tall * b + shear * a * wide], [-b * wide, a * wide]], np.float32
        )
        centre = matrix @ np.array([width, height], np.float32)
        shift = (np.array([new_width, new_height], np.float32) - centre) / 2
        size = (int(new_width), int(new_height))
        number = interpolation(self.interpolation, (height, width), size[::-1], generator)
        with opencv_errors(f"cannot be warped to {size[1]} x {size[0]} pixels") as cv2:
            found: np.ndarray = cv2.warpAffine(
                np.ascontiguousarray(image.pixels),
                np.column_stack([matrix, shift]),
                size,
                flags=number,
                borderValue=(self.fill,) * 3,
            )
        image.replace(found if found.ndim == 3 else found[:, :, None])

    def _angle(self, generator: np.random.Generator) -> float:
        drawn = int(generator.integers(-self.max_rotate_angle, self.max_rotate_angle + 1))
        if self.rotate_list:
            return self.rotate_list[int(generator.integers(len(self.rotate_list)))]
        return self.rotate if self.rotate > 0 else drawn
