"""Decoding of image files, the size that they declare, and scaling by OpenCV."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.decompression_limit import ALLOWED_BYTES
from netweave.installation import need

# A file of 200 bytes can declare 2**30 pixels, and decoders allocate them before they read the first.

MAX_PIXELS = 45_500_000
"""Pixels of one image: those of the largest cameras; with 8 bytes a pixel, they need 360 MB."""

_PNM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,18})(?:\s|#[^\n]*\n)+(\d{1,18})")
_PAM = re.compile(rb"P7\n(?:.*\n){0,10}?WIDTH (\d{1,18})\n(?:.*\n){0,10}?HEIGHT (\d{1,18})\n")
_HDR = re.compile(rb"[-+]Y (\d{1,18}) [-+]X (\d{1,18})\n")
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_MAX_ENTRIES = 1000


def num_pixels(content: bytes | memoryview) -> int:
    """Return the most pixels that an image file declares; 0 where it is of no known kind, or damaged."""
    head = bytes(content[:64])
    try:
        return max((width * height for width, height in _sizes(content, head)), default=0)
    except (IndexError, OverflowError, struct.error, ValueError):
        return 0


def has_endless_chunk(content: bytes | memoryview) -> bool:
    """Return whether a PNG has a chunk that declares far more bytes than the file has.

    OpenCV would allocate all the bytes that are declared.
    """
    at = 8
    while bytes(content[:4]) == b"\x89PNG" and at + 8 <= len(content):
        (length,) = struct.unpack_from(">I", content, at)
        if length > len(content) + ALLOWED_BYTES:
            return True
        at += 12 + length
    return False


def _sizes(content: bytes | memoryview, head: bytes) -> Iterator[tuple[int, int]]:
    if head.startswith(b"\x89PNG"):
        yield struct.unpack_from(">II", content, 16)
    elif head.startswith(b"\xff\xd8"):
        yield from _jpeg(content)
    elif head.startswith(b"BM"):
        wide = struct.unpack_from("<I", content, 14)[0] >= 16
        width, height = struct.unpack_from("<ii" if wide else "<HH", content, 18)
        yield abs(width), abs(height)
    elif head.startswith(b"GIF8"):
        yield struct.unpack_from("<HH", content, 6)
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        yield from _webp(content, head)
    elif head[:4] in {b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"}:
        yield from _tiff(content, ">" if head[:1] == b"M" else "<")
    else:
        yield from _others(content, head)


def _others(content: bytes | memoryview, head: bytes) -> Iterator[tuple[int, int]]:
    start = bytes(content[:4096])
    if head.startswith(b"\x59\xa6\x6a\x95"):  # Sun's raster files
        yield struct.unpack_from(">II", content, 4)
    for mark, skip in ((b"ihdr", 4), (b"ispe", 8)):  # JPEG 2000; AVIF
        if head[4:8] in {b"jP  ", b"ftyp"} and (at := start.find(mark)) >= 0:
            yield struct.unpack_from(">II", content, at + skip)
    for pattern in (_PNM, _PAM):
        if match := pattern.match(start):
            yield int(match[1]), int(match[2])
    if head.startswith(b"#?") and (match := _HDR.search(start)):
        yield int(match[1]), int(match[2])


def _jpeg(content: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield the sizes of all frames before the first scan."""
    at = 2
    while at + 9 <= len(content):
        if content[at] != 0xFF:
            at += 1  # decoders look for the next marker, too
            continue
        kind = content[at + 1]
        if kind in _FRAMES:
            height, width = struct.unpack_from(">HH", content, at + 5)
            yield width, height
        if kind == 0xDA:
            return
        is_alone = kind in {0x00, 0x01, 0xFF} or 0xD0 <= kind <= 0xD9
        at += (1 if kind == 0xFF else 2) if is_alone else 2 + struct.unpack_from(">H", content, at + 2)[0]


def _webp(content: bytes | memoryview, head: bytes) -> Iterator[tuple[int, int]]:
    kind = head[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(content[at : at + 3], "little") for at in (24, 27))
        yield 1 + width, 1 + height
    elif kind == b"VP8L":
        bits = struct.unpack_from("<I", content, 21)[0]
        yield 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    elif kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 26)
        yield width & 0x3FFF, height & 0x3FFF


def _tiff(content: bytes | memoryview, order: str) -> Iterator[tuple[int, int]]:
    """Yield the size in the first directory."""
    is_big = struct.unpack_from(f"{order}H", content, 2)[0] == 43
    start = struct.unpack_from(f"{order}Q" if is_big else f"{order}I", content, 8 if is_big else 4)[0]
    count = struct.unpack_from(f"{order}Q" if is_big else f"{order}H", content, start)[0]
    size, at = (20, start + 8) if is_big else (12, start + 2)
    sides = {256: 0, 257: 0}
    for number in range(min(count, _MAX_ENTRIES)):
        tag, kind = struct.unpack_from(f"{order}HH", content, at + size * number)
        if tag in sides:
            form = {3: "H", 16: "Q"}.get(kind, "I")
            place = at + size * number + (12 if is_big else 8)
            sides[tag] = max(sides[tag], struct.unpack_from(f"{order}{form}", content, place)[0])
    yield sides[256], sides[257]


# OpenCV lets go of the interpreter while it decodes, so that threads decode side by side. The orientation
# that a camera notes in a file is not looked at: neither Caffe nor MXNet did.

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


def label_pixels(content: bytes | memoryview, place: Callable[[], str]) -> np.ndarray:
    """Return the classes that the pixels of an image file are, (height, width, 1).

    Files with a palette (Pascal VOC's) hold numbers of colours; these are the classes, as Pillow reads them.

    Raises:
        ReadError: As ``decode``, or it has colours without a palette.
    """
    pixels = decode(content, "native", place)
    if pixels.shape[2] == 1:
        return pixels
    palette = _palette(bytes(content))
    if palette is None:
        raise ReadError("has colours, expected one number for each pixel, its class", place=place())
    numbers = {tuple(color): number for number, color in reversed(list(enumerate(palette)))}
    colors, where = np.unique(pixels[:, :, 2::-1].reshape(-1, 3), axis=0, return_inverse=True)
    classes = np.array([numbers[tuple(color)] for color in colors.tolist()], np.uint8)
    return classes[where.reshape(-1)].reshape(*pixels.shape[:2], 1)


def _palette(content: bytes) -> list[list[int]] | None:
    """Return the colours (red, green, blue) of a PNG by number; None for one without a palette."""
    at = 8
    if content[:4] != b"\x89PNG" or content[25:26] != b"\x03":
        return None
    while content[at + 4 : at + 8] not in {b"PLTE", b"IDAT", b""}:
        at += 12 + int.from_bytes(content[at : at + 4], "big")
    size = int.from_bytes(content[at : at + 4], "big")
    return np.frombuffer(content, np.uint8, size, at + 8).reshape(-1, 3).tolist()


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
