"""The limit on the uncompressed size of archives and compressed files.

Deflate makes a gigabyte of zeros of one megabyte; a reader that unpacks whatever it is given can be made to
fill the memory by an upload that nobody would refuse for its size.
"""

from __future__ import annotations

import zlib

from netweave.errors import ReadError

ALLOWED_BYTES = 128 << 20
"""Any file may unpack to so many bytes."""

FACTOR = 8
"""And to so many times its size more: numbers compress to half or so, labels to a tenth."""


def allowed_bytes(num_bytes: int) -> int:
    """Return how many bytes a file of a size may unpack to."""
    return ALLOWED_BYTES + FACTOR * num_bytes


def check_expansion(unpacked_bytes: int, num_bytes: int, *, place: str) -> None:
    """Check what a file says that it unpacks to, before anything is unpacked.

    Args:
        unpacked_bytes: Bytes of all its parts.
        num_bytes: Bytes of the file.
        place: The file, for messages.

    Raises:
        ReadError: It is more than a file of that size may.
    """
    if unpacked_bytes > allowed_bytes(num_bytes):
        raise ReadError(
            f"has {num_bytes:,} bytes that unpack to {unpacked_bytes:,}, expected at most "
            f"{allowed_bytes(num_bytes):,}; if that is right, save it without compression",
            place=place,
        )


def gunzip(content: bytes, *, place: str) -> bytes:
    """Return what a ``.gz`` holds.

    Raises:
        ReadError: It is damaged, or unpacks to more than it may.
    """
    unpacked, pieces, most = 0, [], allowed_bytes(len(content))
    while content:
        stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            pieces.append(stream.decompress(content, most - unpacked + 1))
        except zlib.error as error:
            raise ReadError(f"cannot be unpacked: {error}", place=place) from error
        unpacked += len(pieces[-1])
        check_expansion(unpacked, len(content), place=place)
        if not stream.eof:
            raise ReadError("ends inside of its compressed data; was it copied whole?", place=place)
        content = stream.unused_data.lstrip(b"\0")  # further members, and the padding of tapes
    return b"".join(pieces)
