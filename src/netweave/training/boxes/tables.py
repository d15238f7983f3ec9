"""Labelled boxes and detections as arrays, whatever file they are from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class Labels:
    """Labelled boxes, one row each.

    Attributes:
        images: Names of all images, those without a box too.
        classes: Names of the classes.
        image: Number of each box's image.
        label: Number of its class.
        corners: (x0, y0, x1, y1), in pixels, where x1 and y1 are the first that are no more in the box.
        ignored: Whether it counts neither when it is found nor when it is not: VOC's difficult, COCO's crowd.
        crowd: Whether it stands for many objects (COCO), so that parts of it overlap it fully.
        area: Of the object, by which COCO tells small from large; None for that of the box.
    """

    images: tuple[str, ...]
    classes: tuple[str, ...]
    image: np.ndarray
    label: np.ndarray
    corners: np.ndarray
    ignored: np.ndarray
    crowd: np.ndarray
    area: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class Detections:
    """Boxes that were found, one row each, with images and classes numbered as in the labels.

    Attributes:
        image: Number of each box's image.
        label: Number of its class.
        score: How sure it is, larger is surer.
        corners: As in ``Labels``.
    """

    image: np.ndarray
    label: np.ndarray
    score: np.ndarray
    corners: np.ndarray
