"""Declared sizes of images against what OpenCV decodes, and bombs of a few hundred bytes."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from netweave.errors import ReadError
from netweave.runtime.images.decode import decode, num_pixels

cv2 = pytest.importorskip("cv2")


SUFFIXES = (".png", ".jpg", ".bmp", ".webp", ".tif", ".ppm", ".pgm", ".ras", ".jp2", ".hdr")
STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"BM", b"II*\0", b"RIFF\0\0\0\0WEBPVP8L", b"P5", b"")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("shape", [(70, 300, 3), (130, 50, 3)])
def test_the_size_is_that_of_what_is_decoded(suffix, shape):
    dtype = np.float32 if suffix == ".hdr" else np.uint8
    pixels = np.random.default_rng(0).integers(0, 255, shape).astype(dtype)
    content = cv2.imencode(suffix, pixels[..., :1] if suffix == ".pgm" else pixels)[1].tobytes()
    assert num_pixels(content) == shape[0] * shape[1]


def test_webp_without_loss_and_gif():
    pixels = np.zeros((9, 4, 3), np.uint8)
    assert num_pixels(cv2.imencode(".webp", pixels, [cv2.IMWRITE_WEBP_QUALITY, 101])[1].tobytes()) == 36
    assert num_pixels(b"GIF89a" + struct.pack("<HH", 9, 4)) == 36


def png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")


def test_a_small_file_that_declares_a_billion_pixels_is_refused():
    content = png(30_000, 30_000)
    assert len(content) < 200
    with pytest.raises(ReadError, match=r"x: declares 900,000,000 pixels in \d+ bytes, expected at most 45,"):
        decode(content, "bgr", lambda: "x")


@pytest.mark.parametrize("start", STARTS)
def test_damaged_headers_declare_nothing(start):
    assert num_pixels(start) == 0
    assert num_pixels(start + bytes(3)) == 0


def test_a_chunk_of_four_gigabytes_is_refused():
    content = cv2.imencode(".png", np.zeros((5, 6, 3), np.uint8))[1].tobytes()
    damaged = content[:33] + b"\xff\x00\x01\x6a" + content[37:]
    with pytest.raises(ReadError, match="x: is a damaged image: it declares a chunk that is longer"):
        decode(damaged, "bgr", lambda: "x")
