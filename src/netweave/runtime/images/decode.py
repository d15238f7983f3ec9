"""Image files to pixels, by OpenCV, as Caffe and MXNet do: uint8, (height, width, channels).

OpenCV lets go of the interpreter while it decodes, so that threads decode side by side. The orientation
that a camera notes in a file is not looked at: neither Caffe nor MXNet did.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError
from netweave.installation import need
from netweave.runtime.images.declared_size import MAX_PIXELS, has_endless_chunk, num_pixels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = "OPENCV_IO_MAX_IMAGE_PIXELS"
"""The environment variable that allows more than ``MAX_PIXELS``."""

COLORS = ("bgr", "rgb", "gray", "native")
"""Orders of channels: Caffe's, MXNet's, one channel, and as the file has them (colours in BGR)."""


@cache
def opencv() -> Any:
    """Return OpenCV, which may use no threads of its own beside ours.

    Raises:
        UsageError: It is not installed.
    """
    # a second limit, for kinds of files that ``num_pixels`` does not know; read when OpenCV is imported
    os.environ.setdefault(LIMIT, str(MAX_PIXELS))
    cv2 = need("cv2", "images")
    cv2.setNumThreads(0)
    return cv2


@contextmanager
def opencv_errors(what: str) -> Iterator[Any]:
    """Give OpenCV for one call, whose own errors become those that transforms raise.

    Raises:
        ValueError: OpenCV fails; the message begins with ``what``.
    """
    cv2 = opencv()
    try:
        yield cv2
    except cv2.error as error:
        raise ValueError(f"{what}: {error.err}") from error


@cache
def _flags(color: str) -> int:
    cv2 = opencv()
    known = {
        "bgr": cv2.IMREAD_COLOR_BGR,
        "rgb": cv2.IMREAD_COLOR_RGB,
        "gray": cv2.IMREAD_GRAYSCALE,
        "native": cv2.IMREAD_UNCHANGED,
    }
    return int(known[color]) | (0 if color == "native" else int(cv2.IMREAD_IGNORE_ORIENTATION))


def decode(content: bytes | memoryview, color: str, place: Callable[[], str]) -> np.ndarray:
    """Return the pixels of an image file; a gray one has one channel.

    Args:
        content: The file.
        color: One of ``COLORS``.
        place: Says where the file is, for the error.

    Raises:
        ReadError: It is no image that OpenCV knows, is damaged, or has more than 8 bits a channel.
    """
    cv2 = opencv()
    most = int(os.environ[LIMIT])
    if (declared := num_pixels(content)) > most:
        raise ReadError(
            f"declares {declared:,} pixels in {len(content):,} bytes, expected at most {most:,}; set "
            f"{LIMIT} if that is right",
            place=place(),
        )
    if has_endless_chunk(content):
        raise ReadError("is a damaged image: it declares a chunk that is longer than the file", place=place())
    try:
        pixels = cv2.imdecode(np.frombuffer(content, np.uint8), _flags(color)) if len(content) else None
    except cv2.error as error:
        raise ReadError(f"is a damaged image: {error.err}", place=place()) from error
    if pixels is None:
        start = bytes(content[:8])
        message = f"is no image that can be decoded ({len(content):,} bytes, the first are {start!r})"
        raise ReadError(message, place=place())
    if pixels.dtype != np.uint8:
        raise ReadError(f"has pixels of type {pixels.dtype}, expected 8 bits a channel", place=place())
    image: np.ndarray = pixels if pixels.ndim == 3 else pixels[:, :, None]
    return image
