"""Scaling of images by OpenCV."""

from __future__ import annotations

import numpy as np

from netweave.runtime.images.decode import opencv_errors

INTERPOLATIONS = ("nearest", "linear", "cubic", "area", "lanczos")
"""OpenCV's, by their numbers there and in MXNet; besides, MXNet's ``auto`` and ``random``."""


def require_interpolation(name: str) -> None:
    """Refuse an unknown interpolation.

    Raises:
        ValueError: There is none of this name.
    """
    known = (*INTERPOLATIONS, "auto", "random")
    if name not in known:
        raise ValueError(f"interpolation is {name!r}, expected {', '.join(known)}")


def interpolation(
    name: str, old: tuple[int, int], new: tuple[int, int], generator: np.random.Generator
) -> int:
    """Return OpenCV's number of an interpolation.

    Args:
        name: As written; ``auto`` is cubic where both sizes grow, area where both shrink, else linear.
        old: Height and width before.
        new: Height and width after.
        generator: Where ``random`` draws from.
    """
    if name == "random":
        return int(generator.integers(len(INTERPOLATIONS)))
    if name == "auto":
        if new[0] > old[0] and new[1] > old[1]:
            name = "cubic"
        else:
            name = "area" if new[0] < old[0] and new[1] < old[1] else "linear"
    return INTERPOLATIONS.index(name)


def resized(
    pixels: np.ndarray, height: int, width: int, method: str, generator: np.random.Generator
) -> np.ndarray:
    """Return an image in another size.

    Raises:
        ValueError: ``scaled`` cannot do it.
    """
    return scaled(pixels, height, width, interpolation(method, pixels.shape[:2], (height, width), generator))


def scaled(
    pixels: np.ndarray, height: int, width: int, number: int = INTERPOLATIONS.index("linear")
) -> np.ndarray:
    """Return an image in another size, by OpenCV's interpolation of a number.

    Raises:
        ValueError: One of the sizes is empty, or too large for OpenCV.
    """
    # OpenCV would take an empty size as an order to go by its factors, which are 0, too
    if min(height, width, *pixels.shape[:2]) < 1:
        old = f"{pixels.shape[0]} x {pixels.shape[1]}"
        raise ValueError(f"would be scaled from {old} to {height} x {width} pixels, expected at least 1 x 1")
    with opencv_errors(f"cannot be scaled to {height} x {width} pixels") as cv2:
        image: np.ndarray = cv2.resize(np.ascontiguousarray(pixels), (width, height), interpolation=number)
    return image if image.ndim == 3 else image[:, :, None]
