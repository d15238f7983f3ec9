"""NumPy's files: an array (``.npy``), and an archive of arrays (``.npz``), of any size and origin.

``numpy.load`` reads the header as an expression of Python and trusts the sizes in it. Here what a header
declares must be in the file, and what an archive declares is checked before it is unpacked. Objects are never
unpickled.
"""

from __future__ import annotations

import io
import math
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files.decompression_limit import check_expansion
from netweave.files.library_errors import reason_of
from netweave.files.zipped import read_member, zip_errors

MAGIC = b"\x93NUMPY"

_BAD_HEADER = (
    *(ArithmeticError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError),
    *(AttributeError, SyntaxError, TokenError),
)
"""What NumPy raises over a header, which it reads as an expression of Python of at most 10,000 characters."""


def read_header(file: io.BytesIO, *, place: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return sizes, whether columns come first, and the element type; the file then stands at the numbers.

    Raises:
        ReadError: It is no header of NumPy.
    """
    try:
        major, _ = np.lib.format.read_magic(file)
        head = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, by_columns, dtype = head(file)
    except _BAD_HEADER as error:
        raise ReadError(f"is not a complete .npy file: {reason_of(error)}", place=place) from error
    if not all(type(size) is int and size >= 0 for size in shape):
        raise ReadError(f"is not a complete .npy file: it has the sizes {shape!s:.60}", place=place)
    return shape, by_columns, dtype


def parse_npy(content: bytes, *, place: str) -> np.ndarray:
    """Return the array of a ``.npy`` file.

    Raises:
        ReadError: It is damaged, or holds objects of Python.
    """
    file = io.BytesIO(content)
    shape, by_columns, dtype = read_header(file, place=place)
    if dtype.hasobject:
        raise ReadError("holds objects of Python, which are never unpickled; expected numbers", place=place)
    needed, there = math.prod(shape) * dtype.itemsize, len(content) - file.tell()
    if needed > there or (shape and not dtype.itemsize):
        raise ReadError(
            f"has {there:,} bytes of numbers, expected {needed:,} for {'x'.join(map(str, shape))} {dtype}; "
            "was it copied or downloaded whole?",
            place=place,
        )
    try:
        flat = np.frombuffer(content, dtype, math.prod(shape), file.tell())
        return flat.reshape(shape, order="F" if by_columns else "C").copy(order="K")
    except ValueError as error:  # more axes than NumPy has, or sizes beside a zero that overflow
        raise ReadError(f"is not a complete .npy file: {reason_of(error)}", place=place) from error


def read_npz(file: Path | bytes, *, place: str) -> dict[str, np.ndarray]:
    """Return the arrays of a ``.npz`` file by name.

    Args:
        file: The file, or its content.
        place: Its name, for messages.

    Raises:
        ReadError: It is damaged, holds objects of Python, or would unpack to far more than it is.
    """
    num_bytes = len(file) if isinstance(file, bytes) else file.stat().st_size
    opened: Any = io.BytesIO(file) if isinstance(file, bytes) else file
    with zip_errors(place, "a complete .npz file of arrays"), zipfile.ZipFile(opened) as archive:
        members = archive.infolist()
        check_expansion(sum(member.file_size for member in members), num_bytes, place=place)
        return {
            member.filename.removesuffix(".npy"): parse_npy(
                read_member(archive, member), place=f"{place}: {member.filename!r:.200}"
            )
            for member in members
        }
