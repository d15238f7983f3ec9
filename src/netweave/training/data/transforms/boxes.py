"""Darknet's augmentation for detectors: images on a canvas with their boxes, and colours in HSV.

Rules: ``load_data_detection``, ``fill_truth_detection`` and ``random_distort_image`` (data.c, image.c of
pjreddie's branch). Images are scaled by OpenCV, half a pixel beside where Darknet takes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from netweave.graph.ops.yolo_loss import TRUTH_COLUMNS
from netweave.runtime.images.decode import opencv
from netweave.runtime.images.scaling import resized
from netweave.training.data.transform import Geometric, transform
from netweave.training.settings import require

if TYPE_CHECKING:
    from netweave.training.data.transform import Image

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
        found = np.zeros((self.max_boxes or rows, TRUTH_COLUMNS), np.float32)
        kept = boxes[: len(found)]
        found[: len(kept)] = kept
        return found


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
