"""Images that training decodes beside its steps: JPEG of 500 x 375, random window of 224, mirror, mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cv2
import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

IMAGES = 128
TRANSFORMS = (
    {"kind": "crop", "height": 224, "width": 224, "where": "random"},
    {"kind": "mirror"},
    {"kind": "subtract", "values": [104.0, 117.0, 123.0]},
)


def draw(folder: Path) -> None:
    """Write the images, in one folder as one class."""
    (folder / "all").mkdir(parents=True)
    for index in range(IMAGES):
        generator = np.random.default_rng(index)
        coarse = generator.integers(0, 256, (24, 32, 3), dtype=np.uint8)
        smooth = cv2.resize(coarse, (500, 375), interpolation=cv2.INTER_CUBIC)
        noisy = np.clip(smooth + generator.normal(0.0, 9.0, smooth.shape), 0, 255).astype(np.uint8)
        cv2.imwrite(str(folder / "all" / f"{index:04d}.jpg"), noisy, [cv2.IMWRITE_JPEG_QUALITY, 86])
