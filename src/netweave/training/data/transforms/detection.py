"""Transforms of boxes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from netweave.graph.ops.box_geometry import box_areas, centres_of_corners, corners_of_centres
from netweave.graph.ops.detection import overlaps
from netweave.graph.ops.regions import TRUTH_COLUMNS
from netweave.runtime.images.decode import opencv, resized
from netweave.training.data.transform import Geometric, Image, transform
from netweave.training.data.transforms.arithmetic import three_channels
from netweave.training.settings import from_settings, require

LEAST_PADDING = 1.05
"""A border that would make the image less than this larger is left out."""

LEAST_EXPANSION = 1e-2
"""A largest expansion that is no more than this above 1 is none."""

LEAST_CONTRAST = 1e-3
"""A change of contrast below this is none."""

HLS_LIMITS = np.array([180, 255, 255], np.int16)
"""Largest hue, lightness and saturation of 8 bits in OpenCV."""


@transform("hls_shift")
@dataclass(frozen=True, slots=True, kw_only=True)
class HLSShift(Geometric):
    """Adds whole numbers to hue, lightness and saturation, then multiplies by a contrast; for BGR.

    Each of the four is drawn evenly between minus and plus its limit, and happens with a probability.

    Attributes:
        hue: Limit of what is added to the hue (0 to 180).
        hue_probability: How often.
        saturation: Likewise (0 to 255).
        saturation_probability: How often.
        lightness: Likewise (0 to 255).
        lightness_probability: How often.
        contrast: Limit of the change of the factor, which is 1 without; below 1.
        contrast_probability: How often.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    hue: int = 0
    hue_probability: float = 0.0
    saturation: int = 0
    saturation_probability: float = 0.0
    lightness: int = 0
    lightness_probability: float = 0.0
    contrast: float = 0.0
    contrast_probability: float = 0.0

    def __post_init__(self) -> None:
        require(0.0 <= self.contrast < 1.0, f"contrast is {self.contrast:g}, expected 0 <= contrast < 1")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        limits = np.array([self.hue, self.lightness, self.saturation, self.contrast])
        chances = (
            self.hue_probability,
            self.lightness_probability,
            self.saturation_probability,
            self.contrast_probability,
        )
        drawn = generator.uniform(-1.0, 1.0, 4) * limits
        drawn = np.where(generator.random(4) < chances, drawn, 0.0)
        shifts, contrast = np.trunc(drawn[:3]).astype(np.int16), float(drawn[3])
        if shifts.any():
            cv2 = opencv()
            hls = cv2.cvtColor(three_channels(image), cv2.COLOR_BGR2HLS).astype(np.int16) + shifts
            hls = np.clip(hls, 0, HLS_LIMITS).astype(np.uint8)
            image.pixels = cv2.cvtColor(hls, cv2.COLOR_HLS2BGR)
        if abs(contrast) > LEAST_CONTRAST:
            scaled = np.rint(image.pixels * np.float32(1.0 + contrast))
            image.pixels = np.clip(scaled, 0, 255).astype(np.uint8)


@transform("random_pad")
@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPad(Geometric):
    """Puts the image somewhere on a larger one of the same proportions.

    Attributes:
        probability: How often.
        max_scale: Largest size of the larger one, in sizes of the image.
        fill: Its value.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    probability: float
    max_scale: float
    fill: int = 127

    def __post_init__(self) -> None:
        require(self.max_scale >= 1.0, f"max_scale is {self.max_scale:g}, expected 1 or more")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image and its boxes."""
        if generator.random() >= self.probability:
            return
        scale = generator.uniform(1.0, self.max_scale)
        if scale < LEAST_PADDING:
            return
        left, top = generator.uniform(0.0, scale - 1.0, 2)
        height, width = image.pixels.shape[:2]
        border = (
            (int(top * height), int((scale - 1.0 - top) * height)),
            (int(left * width), int((scale - 1.0 - left) * width)),
            (0, 0),
        )
        image.replace(np.pad(image.pixels, border, constant_values=self.fill))
        if image.boxes is not None:
            image.objects = _projected(image.objects, np.array([-left, -top]), np.array([scale, scale]))


@dataclass(frozen=True, slots=True, kw_only=True)
class CropSampler:
    """One way to choose a window; each range is (smallest, largest), relative to the image.

    Attributes:
        scales: Square root of the window's share of the area.
        ratios: Width over height of the window, in pixels.
        overlaps: Intersection over union of the window and an object.
        sample_coverages: Share of the window that an object covers.
        object_coverages: Share of an object that the window covers.
        trials: How many windows are tried.
        windows: How many of them are kept at most, where all that are found take part (``WindowSamplers``);
            0 for all.
        needs_object: Whether an image without objects has no window.
    """

    scales: tuple[float, float] = (0.0, 1.0)
    ratios: tuple[float, float] = (1.0, 1.0)
    overlaps: tuple[float, float] = (0.0, 1.0)
    sample_coverages: tuple[float, float] = (0.0, 1.0)
    object_coverages: tuple[float, float] = (0.0, 1.0)
    trials: int = 25
    windows: int = 1
    needs_object: bool = False

    def __post_init__(self) -> None:
        low, high = self.scales
        require(0.0 <= low <= high <= 1.0, f"scales are {low:g} to {high:g}, expected 0 <= min <= max <= 1")
        for name in ("ratios", "overlaps", "sample_coverages", "object_coverages"):
            low, high = getattr(self, name)
            require(low <= high, f"{name} are {low:g} to {high:g}, expected min <= max")
        require(self.ratios[0] >= 0.0, f"ratios begin at {self.ratios[0]:g}, expected 0 or more")

    def window(self, aspect: float, generator: np.random.Generator) -> np.ndarray:
        """Return the corners of a window of an image whose width is ``aspect`` heights."""
        scale = generator.uniform(*self.scales) + 1e-12
        low = max(self.ratios[0] / aspect, scale * scale)
        high = min(self.ratios[1] / aspect, 1.0 / (scale * scale))
        # where no ratio fits, the bounds have changed places: MXNet then draws between them, too
        ratio = math.sqrt(low + (high - low) * generator.random())
        size = np.minimum(1.0, [scale * ratio, scale / ratio])
        corner = generator.random(2) * (1.0 - size)
        return np.concatenate([corner, corner + size])

    def accepts(self, window: np.ndarray, objects: np.ndarray) -> bool:
        """Return whether one of the objects (corners) is in the ranges; whether there is none, too."""
        ranges = (self.overlaps, self.sample_coverages, self.object_coverages)
        asked = [low > 0.0 or high < 1.0 for low, high in ranges]
        if self.needs_object and not len(objects):
            return False
        if not len(objects) or not any(asked):
            return True
        shared = _shared_areas(window, objects)
        measures = (
            overlaps(window, objects),
            shared / box_areas(window, np),
            shared / box_areas(objects, np),
        )
        fits = np.ones(len(objects), bool)
        for measure, (low, high), is_asked in zip(measures, ranges, asked, strict=True):
            if is_asked:
                fits &= (measure >= low) & (measure <= high)
        return bool(fits.any())


KEPT = ("center", "overlap")


@transform("sampled_crop")
@dataclass(frozen=True, slots=True, kw_only=True)
class SampledCrop(Geometric):
    """Cuts out a window that one of several samplers chooses, and that has an object in it.

    The samplers take their turns in a random order; if none of them finds a window, the image stays as it is.

    Attributes:
        probability: How often.
        samplers: The ways to choose a window.
        keep: Which objects stay: those whose ``center`` is in the window, or those of which it holds more
            than ``keep_overlap`` (``overlap``).
        keep_overlap: Share of the object.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    probability: float
    samplers: Sequence[CropSampler]
    keep: str = "center"
    keep_overlap: float = 0.3

    def __post_init__(self) -> None:
        require(self.keep in KEPT, f"keep is {self.keep!r}, expected {' or '.join(KEPT)}")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image and its boxes."""
        if generator.random() >= self.probability:
            return
        height, width = image.pixels.shape[:2]
        objects = np.zeros((0, 4)) if image.boxes is None else image.objects.astype(np.float64)
        corners = corners_of_centres(objects[:, :4], np)
        for number in generator.permutation(len(self.samplers)):
            sampler = self.samplers[number]
            for _ in range(sampler.trials):
                window = sampler.window(width / height, generator)
                stays = _stays(window, corners, self.keep, self.keep_overlap)
                if sampler.accepts(window, corners) and (stays.any() or not len(objects)):
                    _cut(image, window, objects[stays])
                    return


def _stays(window: np.ndarray, corners: np.ndarray, keep: str, share: float) -> np.ndarray:
    """Return which objects are kept in a window."""
    if keep == "center":
        centres = (corners[:, :2] + corners[:, 2:]) / 2
        is_inside: np.ndarray = ((centres >= window[:2]) & (centres < window[2:])).all(axis=1)
        return is_inside
    kept: np.ndarray = _shared_areas(window, corners) / box_areas(corners, np) > share
    return kept


def _cut(image: Image, window: np.ndarray, objects: np.ndarray) -> None:
    """Let an image be a window of it, with the objects that are kept."""
    height, width = image.pixels.shape[:2]
    size = window[2:] - window[:2]
    left, top = int(window[0] * width), int(window[1] * height)
    columns, rows = max(1, int(size[0] * width)), max(1, int(size[1] * height))
    image.replace(image.pixels[top : top + rows, left : left + columns])
    if image.boxes is not None:
        image.objects = _projected(objects, window[:2], size)


# Rules of SSD: ``GenerateBatchSamples`` (sampler.cpp), ``ApplyDistort`` (im_transforms.cpp), ``ExpandImage``
# and ``TransformAnnotation`` (data_transformer.cpp) of W. Liu's branch.


@transform("window_samplers")
@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSamplers(Geometric):
    """Cuts out one of the windows that all samplers together find; without any the image stays as it is.

    Attributes:
        samplers: The ways to choose windows; their ratios are relative to the image's own.
        keep: Which objects stay: those whose ``center`` is in the window, or those of which it holds more
            than ``keep_overlap`` (``overlap``).
        keep_overlap: Share of the object.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    samplers: Sequence[CropSampler | Mapping[str, Any]]
    keep: str = "overlap"
    keep_overlap: float = 0.0

    def __post_init__(self) -> None:
        require(self.keep in KEPT, f"keep is {self.keep!r}, expected {' or '.join(KEPT)}")

    @property
    def made(self) -> list[CropSampler]:
        """The samplers; a Job has them as settings."""
        return [
            one if isinstance(one, CropSampler) else from_settings(CropSampler, "a sampler", one)
            for one in self.samplers
        ]

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image and its boxes."""
        objects = np.zeros((0, 4)) if image.boxes is None else image.objects.astype(np.float64)
        corners = corners_of_centres(objects[:, :4], np)
        windows: list[np.ndarray] = []
        for sampler in self.made:
            found = 0
            for _ in range(sampler.trials):
                if sampler.windows and found >= sampler.windows:
                    break
                window = sampler.window(1.0, generator)
                if sampler.accepts(window, corners):
                    windows.append(window)
                    found += 1
        if windows:
            window = windows[int(generator.integers(len(windows)))]
            _cut(image, window, objects[_stays(window, corners, self.keep, self.keep_overlap)])


@transform("colour_distortion")
@dataclass(frozen=True, slots=True, kw_only=True)
class ColourDistortion(Geometric):
    """Changes brightness, contrast, saturation and hue, each with a probability of its own; for BGR.

    The contrast is changed second or fourth, either as often. Each result is rounded to 8 bits.

    Attributes:
        brightness: Limit of what is added, either way.
        brightness_probability: How often.
        contrasts: Smallest and largest factor of all values.
        contrast_probability: How often.
        saturations: Smallest and largest factor of the saturation.
        saturation_probability: How often.
        hue: Limit of what is added to OpenCV's hue, either way.
        hue_probability: How often.
        order_probability: How often the channels change places.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    brightness: float = 0.0
    brightness_probability: float = 0.0
    contrasts: tuple[float, float] = (1.0, 1.0)
    contrast_probability: float = 0.0
    saturations: tuple[float, float] = (1.0, 1.0)
    saturation_probability: float = 0.0
    hue: float = 0.0
    hue_probability: float = 0.0
    order_probability: float = 0.0

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        pixels = three_channels(image)
        is_early = generator.random() > 0.5
        pixels = self._brightened(pixels, generator)
        if is_early:
            pixels = self._contrasted(pixels, generator)
        pixels = self._in_hsv(pixels, generator)
        if not is_early:
            pixels = self._contrasted(pixels, generator)
        if generator.random() < self.order_probability:
            pixels = np.ascontiguousarray(pixels[..., generator.permutation(3)])
        image.pixels = pixels

    def _brightened(self, pixels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if generator.random() >= self.brightness_probability:
            return pixels
        return _in_bytes(pixels + np.float32(generator.uniform(-self.brightness, self.brightness)))

    def _contrasted(self, pixels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        if generator.random() >= self.contrast_probability:
            return pixels
        factor = generator.uniform(*self.contrasts)
        return _in_bytes(pixels * np.float32(factor)) if abs(factor - 1.0) > LEAST_CONTRAST else pixels

    def _in_hsv(self, pixels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Change the saturation, then the hue; a hue beyond the circle is cut off, as 8 bits do."""
        saturates, turns = generator.random(2) < (self.saturation_probability, self.hue_probability)
        factor, turn = generator.uniform(*self.saturations), generator.uniform(-self.hue, self.hue)
        cv2 = opencv()
        for is_made, channel, scale, shift in ((saturates, 1, factor, 0.0), (turns, 0, 1.0, turn)):
            if is_made:
                hsv = cv2.cvtColor(pixels, cv2.COLOR_BGR2HSV)
                hsv[..., channel] = _in_bytes(hsv[..., channel] * np.float32(scale) + np.float32(shift))
                pixels = cv2.cvtColor(hsv, cv2.COLOR_HSV2BGR)
        return pixels


def _in_bytes(values: np.ndarray) -> np.ndarray:
    rounded: np.ndarray = np.clip(np.rint(values), 0, 255).astype(np.uint8)
    return rounded


@transform("expand")
@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(Geometric):
    """Puts the image somewhere on a larger one, of which the rest has one colour.

    Attributes:
        probability: How often.
        max_ratio: Largest side of the larger one, in sides of the image.
        fill: Its colour, a number for each channel; none for black.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    probability: float
    max_ratio: float
    fill: Sequence[float] = ()

    def __post_init__(self) -> None:
        require(self.max_ratio >= 1.0, f"max_ratio is {self.max_ratio:g}, expected 1 or more")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image and its boxes."""
        if generator.random() > self.probability or self.max_ratio - 1.0 < LEAST_EXPANSION:
            return
        ratio = generator.uniform(1.0, self.max_ratio)
        height, width, channels = image.pixels.shape
        rows, columns = int(height * ratio), int(width * ratio)
        top, left = (
            int(generator.uniform(0.0, room)) if room else 0 for room in (rows - height, columns - width)
        )
        canvas = np.zeros((rows, columns, channels), image.pixels.dtype)
        canvas[...] = _in_bytes(np.array(self.fill or (0.0,), np.float32))
        canvas[top : top + height, left : left + width] = image.pixels
        image.replace(canvas)
        if image.boxes is not None:
            origin = np.array([-left / width, -top / height])
            image.objects = _projected(image.objects, origin, np.array([columns / width, rows / height]))


def _shared_areas(window: np.ndarray, corners: np.ndarray) -> np.ndarray:
    low, high = np.maximum(corners[:, :2], window[:2]), np.minimum(corners[:, 2:], window[2:])
    sides = np.maximum(high - low, 0.0)
    area: np.ndarray = sides[:, 0] * sides[:, 1]
    return area


def _projected(objects: np.ndarray, origin: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return objects relative to a window, cut off at its edges."""
    corners = corners_of_centres(objects[:, :4].astype(np.float64), np)
    moved = (corners - np.tile(origin, 2)) / np.tile(size, 2)
    moved[:, :2] = np.maximum(moved[:, :2], 0.0)
    moved[:, 2:] = np.minimum(moved[:, 2:], 1.0)
    return np.concatenate([centres_of_corners(moved, np), objects[:, 4:]], axis=1)


# Rules: ``load_data_detection``, ``fill_truth_detection`` and ``random_distort_image`` (data.c, image.c of
# pjreddie's branch). Images are scaled by OpenCV, half a pixel beside where Darknet takes them.

LEAST_SIDE = 0.001
"""Of boxes that are cut off at the edge, those are left out of which less than this is left."""

GRAY = 127
"""What of the canvas no image covers: Darknet's 0.5."""


@transform("place")
@dataclass(frozen=True, slots=True, kw_only=True)
class Place(Geometric):
    """Scales an image until it just fits on a canvas, and puts it there with its boxes.

    With ``jitter`` 0 and in the centre, this is Darknet's ``letterbox_image``.

    Attributes:
        height: Of the canvas.
        width: Of the canvas.
        jitter: Largest share by which width and height of the image change first, each by itself.
        where: ``random`` or ``centre``.
        max_boxes: Rows for boxes afterwards; which of more boxes are left out is drawn. 0 keeps the rows.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    height: int
    width: int
    jitter: float = 0.0
    where: str = "centre"
    max_boxes: int = 0

    def __post_init__(self) -> None:
        require(min(self.height, self.width) >= 1, f"the canvas is {self.height} x {self.width}")
        require(0.0 <= self.jitter < 1.0, f"jitter is {self.jitter:g}, expected 0 <= jitter < 1")
        require(self.where in {"random", "centre"}, f"where is {self.where!r}, expected random or centre")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image and its boxes."""
        old_height, old_width, channels = image.pixels.shape
        changes = generator.uniform(-self.jitter, self.jitter, 2)
        ratio = old_width * (1.0 + changes[0]) / (old_height * (1.0 + changes[1]))
        height, width = self._fitting(ratio)
        room = np.array([self.width - width, self.height - height], np.float64)
        left, top = (int(n) for n in room * (generator.random(2) if self.where == "random" else 0.5))
        canvas = np.full((self.height, self.width, channels), GRAY, image.pixels.dtype)
        scaled = resized(image.pixels, height, width, "linear", generator)
        canvas[top : top + height, left : left + width] = scaled
        image.replace(canvas)
        if image.boxes is not None:
            scale = np.array([width / self.width, height / self.height])
            boxes = _moved(image.boxes, scale, np.array([left / self.width, top / self.height]))
            image.boxes = self._rows(boxes, len(image.boxes), generator)

    def _fitting(self, ratio: float) -> tuple[int, int]:
        """Return the height and width of an image of some proportions that just fits on the canvas.

        Darknet takes the whole height or width by the ratio alone, so that on a canvas that is not square an
        image may be larger than it; here it is scaled down until it fits.
        """
        height, width = (self.height, self.height * ratio) if ratio < 1 else (self.width / ratio, self.width)
        scale = min(1.0, self.height / height, self.width / width)
        return max(1, round(height * scale)), max(1, round(width * scale))

    def _rows(self, boxes: np.ndarray, rows: int, generator: np.random.Generator) -> np.ndarray:
        """Return boxes in an order of their own, followed by empty rows."""
        if self.where == "random":
            boxes = boxes[generator.permutation(len(boxes))]
        table = np.zeros((self.max_boxes or rows, TRUTH_COLUMNS), np.float32)
        kept = boxes[: len(table)]
        table[: len(kept)] = kept
        return table


@transform("hsv_jitter")
@dataclass(frozen=True, slots=True, kw_only=True)
class HSVJitter(Geometric):
    """Turns the hue, and multiplies saturation and value, all by drawn numbers; for RGB.

    Attributes:
        hue: Largest turn either way, of a full circle.
        saturation: Largest factor, or divisor; the one as likely as the other.
        exposure: Likewise, of the value.
    """

    random: ClassVar[bool] = True
    keeps_boxes: ClassVar[bool] = True

    hue: float = 0.0
    saturation: float = 1.0
    exposure: float = 1.0

    def __post_init__(self) -> None:
        for name in ("saturation", "exposure"):
            require(getattr(self, name) > 0, f"{name} is {getattr(self, name):g}, expected more than 0")

    def change(self, image: Image, generator: np.random.Generator) -> None:
        """Change the image."""
        turn = generator.uniform(-self.hue, self.hue)
        factors = [_factor(limit, generator) for limit in (self.saturation, self.exposure)]
        if image.pixels.shape[2] != 3:
            raise ValueError(f"has {image.pixels.shape[2]} channels, colour transforms need 3")
        cv2 = opencv()
        hsv = cv2.cvtColor(image.pixels.astype(np.float32) / 255.0, cv2.COLOR_RGB2HSV)
        hsv[..., 0] = (hsv[..., 0] + 360.0 * turn) % 360.0
        hsv[..., 1:] *= np.array(factors, np.float32)
        rgb = np.clip(cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB), 0.0, 1.0)
        image.pixels = np.rint(rgb * 255.0).astype(np.uint8)


def _factor(limit: float, generator: np.random.Generator) -> float:
    """Return a number between 1 and a limit, or its inverse: ``rand_scale``."""
    low, high = sorted((1.0, limit))
    factor = float(generator.uniform(low, high))
    return factor if generator.integers(2) else 1.0 / factor


def _moved(boxes: np.ndarray, scale: np.ndarray, offset: np.ndarray) -> np.ndarray:
    """Return the boxes of an image that lies on a canvas, cut off at its edges: ``correct_boxes``."""
    present = boxes[boxes[:, 2] > 0]
    half = present[:, 2:4] / 2
    low = np.clip((present[:, :2] - half) * scale + offset, 0.0, 1.0)
    high = np.clip((present[:, :2] + half) * scale + offset, 0.0, 1.0)
    moved = np.concatenate([(low + high) / 2, high - low, present[:, 4:]], axis=1)
    kept: np.ndarray = moved[(moved[:, 2:4] >= LEAST_SIDE).all(axis=1)]
    return kept
