"""Transforms of geometry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from netweave.runtime.images.decode import (
    interpolation,
    opencv,
    opencv_errors,
    require_interpolation,
    resized,
)
from netweave.training.data.transform import Geometric, Image, transform
from netweave.training.settings import require

WHERE = ("random", "centre", "top left", "top right", "bottom left", "bottom right")
"""Where a window may be cut out; the centre is rounded towards the origin."""


def offsets(room: tuple[int, int], where: str, generator: np.random.Generator) -> tuple[int, int]:
    """Return row and column at which a window begins that has some room."""
    if where == "random":
        return int(generator.integers(room[0] + 1)), int(generator.integers(room[1] + 1))
    if where == "centre":
        return room[0] // 2, room[1] // 2
    return room[0] * where.startswith("bottom"), room[1] * where.endswith("right")


def mirrored(pixels: np.ndarray) -> np.ndarray:
    """Return an image with left and right changed."""
    if pixels.strides[2] != pixels.itemsize:  # planes, not pixels, lie side by side
        return pixels[:, ::-1]
    flipped: np.ndarray = opencv().flip(pixels, 1)
    return flipped if flipped.ndim == 3 else flipped[:, :, None]


@transform("resize")
@dataclass(frozen=True, slots=True, kw_only=True)
class Resize(Geometric):
    """Scales to a size, or to one of the shorter side, the longer one in proportion (rounded down).

    Attributes:
        height: New height, if ``shorter`` is None.
        width: New width, likewise.
        shorter: New size of the shorter side (MXNet's ``resize``).
        interpolation: How.
    """

    keeps_boxes: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True

    height: int = 0
    width: int = 0
    shorter: int | None = None
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        require_interpolation(self.interpolation)
        given = self.height >= 1 and self.width >= 1
        require(given != (self.shorter is not None), "give either height and width, or shorter")

    def apply(self, pixels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Return an image in the new size."""
        height, width = pixels.shape[:2]
        new = (self.height, self.width)
        if self.shorter is not None:
            new = (self.shorter, self.shorter * width // height)
            if height > width:
                new = (self.shorter * height // width, self.shorter)
        if new == (height, width):
            return pixels
        return resized(pixels, *new, self.interpolation, generator)

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        image.replace(self.apply(image.pixels, generator))
        if image.classes is not None:
            height, width = image.pixels.shape[:2]
            image.classes = resized(image.classes, height, width, "nearest", generator)


@transform("crop")
@dataclass(frozen=True, slots=True, kw_only=True)
class Crop(Geometric):
    """Cuts a window out.

    Attributes:
        height: Of the window.
        width: Of the window.
        where: One of ``WHERE``.
        enlarge: Whether an image that is too small is scaled up first, as MXNet does; else it is an error,
            as in Caffe.
        interpolation: How it is scaled.
    """

    random: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True

    height: int
    width: int
    where: str
    enlarge: bool = False
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        require_interpolation(self.interpolation)
        require(self.height >= 1 and self.width >= 1, f"the window is {self.height} x {self.width}")
        require(self.where in WHERE, f"where is {self.where!r}, expected {', '.join(WHERE)}")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        if self.enlarge:
            self._enlarge(image, generator)
        height, width = image.pixels.shape[:2]
        room = (height - self.height, width - self.width)
        if min(room) < 0:
            raise ValueError(
                f"is {height} x {width} pixels, smaller than the crop of {self.height} x {self.width}"
            )
        top, left = offsets(room, self.where, generator)
        image.pixels = image.pixels[top : top + self.height, left : left + self.width]
        if image.classes is not None:
            image.classes = image.classes[top : top + self.height, left : left + self.width]
        image.top += top
        image.left += width - self.width - left if image.mirrored else left

    def _enlarge(self, image: Image, generator: np.random.Generator) -> None:
        height, width = image.pixels.shape[:2]
        if height < self.height:
            width = int(np.float32(self.height) / np.float32(height) * np.float32(width))
            height = self.height
            image.replace(resized(image.pixels, height, width, self.interpolation, generator))
        if width < self.width:
            height = int(np.float32(self.width) / np.float32(width) * np.float32(height))
            image.replace(resized(image.pixels, height, self.width, self.interpolation, generator))


@transform("mirror")
@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror(Geometric):
    """Changes left and right, with a probability (1 for always)."""

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True
    keeps_classes: ClassVar[bool] = True

    probability: float = 0.5

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        if self.probability >= 1.0 or generator.random() < self.probability:
            image.pixels = mirrored(image.pixels)
            image.mirrored = not image.mirrored
            if image.classes is not None:
                image.classes = image.classes[:, ::-1]
            if image.boxes is not None:
                present = image.boxes[:, 2] > 0
                image.boxes[present, 0] = 1.0 - image.boxes[present, 0]


@transform("pad")
@dataclass(frozen=True, slots=True, kw_only=True)
class Pad(Geometric):
    """Adds a border of one value on all sides."""

    size: int
    fill: int = 255

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        border = ((self.size, self.size), (self.size, self.size), (0, 0))
        image.replace(np.pad(image.pixels, border, constant_values=self.fill))


@transform("random_size_crop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RandomSizeCrop(Geometric):
    """Cuts a square of a random size out, and scales it (MXNet's ``min_crop_size``, ``max_crop_size``).

    Attributes:
        height: After scaling.
        width: After scaling.
        min_size: Smallest side of the square.
        max_size: Largest side.
        where: One of ``WHERE``.
        interpolation: How it is scaled.
    """

    random: ClassVar[bool] = True

    height: int
    width: int
    min_size: int
    max_size: int
    where: str
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        require_interpolation(self.interpolation)
        right = 1 <= self.min_size <= self.max_size
        require(right, f"min_size is {self.min_size} and max_size {self.max_size}")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        height, width = image.pixels.shape[:2]
        if min(height, width) < self.max_size:
            raise ValueError(f"is {height} x {width} pixels, a square of {self.max_size} does not fit")
        size = int(generator.integers(self.min_size, self.max_size + 1))
        top, left = offsets((height - size, width - size), self.where, generator)
        window = image.pixels[top : top + size, left : left + size]
        image.replace(resized(window, self.height, self.width, self.interpolation, generator))


@transform("random_resized_crop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RandomResizedCrop(Geometric):
    """Cuts a part of random area and proportions out, and scales it; ten tries, then the image as it is.

    Attributes:
        height: After scaling.
        width: After scaling.
        min_area: Smallest share of the image's area.
        max_area: Largest share.
        min_ratio: Smallest width over height; which of the two is which is drawn, too.
        max_ratio: Largest.
        interpolation: How it is scaled.
    """

    random: ClassVar[bool] = True

    height: int
    width: int
    min_area: float
    max_area: float
    min_ratio: float
    max_ratio: float
    interpolation: str = "linear"

    def __post_init__(self) -> None:
        require_interpolation(self.interpolation)
        require(0.0 < self.min_area <= self.max_area, f"the area is {self.min_area} to {self.max_area}")
        require(0.0 < self.min_ratio <= self.max_ratio, f"the ratio is {self.min_ratio} to {self.max_ratio}")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        height, width = image.pixels.shape[:2]
        for _ in range(10):
            area = generator.uniform(self.min_area, self.max_area) * height * width
            ratio = generator.uniform(self.min_ratio, self.max_ratio)
            sides = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
            rows, columns = sides[::-1] if generator.random() > 0.5 else sides
            if 1 <= rows <= height and 1 <= columns <= width:
                top, left = offsets((height - rows, width - columns), "random", generator)
                window = image.pixels[top : top + rows, left : left + columns]
                image.replace(resized(window, self.height, self.width, self.interpolation, generator))
                return
        Crop(
            height=self.height,
            width=self.width,
            where="centre",
            enlarge=True,
            interpolation=self.interpolation,
        ).change(image, generator)


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
            warped: np.ndarray = cv2.warpAffine(
                np.ascontiguousarray(image.pixels),
                np.column_stack([matrix, shift]),
                size,
                flags=number,
                borderValue=(self.fill,) * 3,
            )
        image.replace(warped if warped.ndim == 3 else warped[:, :, None])

    def _angle(self, generator: np.random.Generator) -> float:
        drawn = int(generator.integers(-self.max_rotate_angle, self.max_rotate_angle + 1))
        if self.rotate_list:
            return self.rotate_list[int(generator.integers(len(self.rotate_list)))]
        return self.rotate if self.rotate > 0 else drawn
