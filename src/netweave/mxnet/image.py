"""``mx.image``: images as arrays (height, width, channels), as the examples use it."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray
from netweave.runtime.images.decode import decode
from netweave.runtime.images.scaling import resized

INTERPOLATIONS = ("nearest", "linear", "cubic", "area", "lanczos")


def imdecode(buf: bytes | NDArray, flag: int = 1, to_rgb: bool = True, out: Any = None) -> NDArray:
    """Return a decoded image.

    Args:
        buf: The file's bytes.
        flag: 0 for grey.
        to_rgb: Whether the channels are RGB; else BGR.
        out: As MXNet has it.

    Raises:
        ReadError: The bytes are no image.
    """
    content = buf.asnumpy().tobytes() if isinstance(buf, NDArray) else bytes(buf)
    color = "gray" if flag == 0 else "rgb" if to_rgb else "bgr"
    return nd.array(decode(content, color, lambda: "imdecode"), dtype="uint8")


def imread(filename: str, flag: int = 1, to_rgb: bool = True) -> NDArray:
    """Return the image of a file.

    Raises:
        ReadError: The file cannot be read, or is no image.
    """
    try:
        content = Path(filename).read_bytes()
    except OSError as error:
        raise ReadError(f"cannot be read: {error.strerror or error}", place=filename) from error
    return imdecode(content, flag, to_rgb)


def imresize(src: NDArray, w: int, h: int, interp: int = 1) -> NDArray:
    """Return an image in another size."""
    if interp not in range(len(INTERPOLATIONS)):
        raise UsageError(f"interp is {interp}, expected 0 to {len(INTERPOLATIONS) - 1}")
    pixels = src.asnumpy()
    pixels_out = resized(pixels, h, w, INTERPOLATIONS[interp], np.random.default_rng(0))
    return nd.array(pixels_out.reshape(h, w, pixels.shape[2]), dtype=pixels.dtype)


def resize_short(src: NDArray, size: int, interp: int = 2) -> NDArray:
    """Return an image whose shorter side has a size."""
    height, width = src.shape[:2]
    new = (size * height // width, size) if height > width else (size, size * width // height)
    return imresize(src, new[1], new[0], interp)


def fixed_crop(src: NDArray, x0: int, y0: int, w: int, h: int, size: Any = None, interp: int = 2) -> NDArray:
    """Return a window of an image, scaled if ``size`` says so."""
    window = src[y0 : y0 + h, x0 : x0 + w]
    return (
        imresize(window, size[0], size[1], interp) if size is not None and (w, h) != tuple(size) else window
    )


def scale_down(src_size: Any, size: Any) -> tuple[int, int]:
    """Return a size made as much smaller as fits into another one."""
    width, height = size
    most_width, most_height = src_size
    if most_height < height:
        width, height = width * most_height / height, most_height
    if most_width < width:
        width, height = most_width, height * most_width / width
    return int(width), int(height)


def _crop(src: NDArray, size: Any, interp: int, share: Any) -> tuple[NDArray, tuple[int, int, int, int]]:
    height, width = src.shape[:2]
    own_width, own_height = scale_down((width, height), size)
    left, top = share(width - own_width), share(height - own_height)
    cropped = fixed_crop(src, left, top, own_width, own_height, size, interp)
    return cropped, (left, top, own_width, own_height)


def center_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return the middle of an image, and where it was: x, y, width, height."""
    return _crop(src, size, interp, lambda room: room // 2)


def random_crop(src: NDArray, size: Any, interp: int = 2) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return a random window of an image, and where it was."""
    return _crop(src, size, interp, lambda room: int(random.generator().integers(room + 1)))


def random_size_crop(
    src: NDArray, size: Any, area: Any, ratio: tuple[float, float], interp: int = 2
) -> tuple[NDArray, tuple[int, int, int, int]]:
    """Return a random window of random area and shape, scaled to a size, and where it was.

    Args:
        src: The image.
        size: Width and height of the result.
        area: Smallest and largest share of the image; the smallest alone for up to 1.
        ratio: Smallest and largest width over height.
        interp: How it is scaled.
    """
    least, most = (area, 1.0) if isinstance(area, int | float) else area
    height, width = src.shape[:2]
    draw = random.generator()
    for _ in range(10):
        elements = draw.uniform(least, most) * height * width
        shape = np.exp(draw.uniform(*np.log(ratio)))
        own_width, own_height = (round(float(np.sqrt(elements * one))) for one in (shape, 1 / shape))
        if own_width <= width and own_height <= height:
            left, top = (int(draw.integers(room + 1)) for room in (width - own_width, height - own_height))
            cropped = fixed_crop(src, left, top, own_width, own_height, size, interp)
            return cropped, (left, top, own_width, own_height)
    return center_crop(src, size, interp)


def color_normalize(src: NDArray, mean: Any, std: Any = None) -> NDArray:
    """Return (image - mean) / std."""
    centred: NDArray = src.astype("float32") - mean
    return centred if std is None else centred / std


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    batches = importlib.import_module("netweave.mxnet.image_iter")  # which builds on this module
    if name in batches.AUGMENTERS:
        return batches.AUGMENTERS[name]
    if name in {"Augmenter", "CreateAugmenter", "ImageIter"}:
        return getattr(batches, name)
    raise missing("mx.image", name, [key for key in globals() if not key.startswith("_")])
