"""GGUF files."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError
from netweave.files.source import read_bytes
from netweave.graph.costs import num_elements

# A block of the older types has 32 numbers and one scale, one of the K types 256 numbers with eight or
# sixteen scales, which are small integers themselves. N blocks; what a block holds stands in the order of
# its bytes.

Blocks = np.ndarray
"""The bytes of N blocks: (N, bytes of a block)."""


@dataclass(frozen=True, slots=True)
class BlockType:
    """A block format of quantised numbers.

    Attributes:
        name: llama.cpp's name.
        size: Numbers of a block.
        num_bytes: Bytes of a block.
        real: Gives the numbers of blocks: float32 (N, size).
    """

    name: str
    size: int
    num_bytes: int
    real: Callable[[Blocks], np.ndarray]


def _cut(blocks: Blocks, *sizes: int) -> list[np.ndarray]:
    """Return the parts of blocks, of so many bytes each; the last part is what is left."""
    return np.split(blocks, np.cumsum(sizes), axis=1)


def _half(part: np.ndarray) -> np.ndarray:
    """Return the float16 numbers of a part."""
    return np.ascontiguousarray(part).view("<f2").astype(np.float32)


def _bits(part: np.ndarray, width: int, run: int) -> np.ndarray:
    """Return the integers of some bits that share bytes: in runs of bytes, first all lowest bits of a run."""
    shifts = np.arange(0, 8, width, dtype=np.uint8).reshape(1, 1, -1, 1)
    pieces = part.reshape(len(part), -1, 1, run) >> shifts
    return (pieces & np.uint8(2**width - 1)).reshape(len(part), -1)


def _fifth_bits(part: np.ndarray) -> np.ndarray:
    """Return the highest bits of 32 numbers, which stand in one integer."""
    whole = np.ascontiguousarray(part).view("<u4")
    return ((whole >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8)


def _q4_0(blocks: Blocks) -> np.ndarray:
    scale, numbers = _cut(blocks, 2)
    return np.asarray((_bits(numbers, 4, 16).astype(np.float32) - 8) * _half(scale))


def _q4_1(blocks: Blocks) -> np.ndarray:
    scale, least, numbers = _cut(blocks, 2, 2)
    return np.asarray(_bits(numbers, 4, 16) * _half(scale) + _half(least))


def _q5_0(blocks: Blocks) -> np.ndarray:
    scale, high, low = _cut(blocks, 2, 4)
    numbers = _bits(low, 4, 16) | (_fifth_bits(high) << 4)
    return np.asarray((numbers.astype(np.float32) - 16) * _half(scale))


def _q5_1(blocks: Blocks) -> np.ndarray:
    scale, least, high, low = _cut(blocks, 2, 2, 4)
    numbers = _bits(low, 4, 16) | (_fifth_bits(high) << 4)
    return np.asarray(numbers * _half(scale) + _half(least))


def _q8_0(blocks: Blocks) -> np.ndarray:
    scale, numbers = _cut(blocks, 2)
    return np.asarray(np.ascontiguousarray(numbers).view(np.int8) * _half(scale))


def _scaled(numbers: np.ndarray, scales: np.ndarray, least: np.ndarray | None = None) -> np.ndarray:
    """Return the numbers of blocks with a scale, and what is taken off, for each of some equal parts."""
    count = scales.shape[1]
    parts = numbers.astype(np.float32).reshape(len(numbers), count, -1) * scales[:, :, None]
    parts = parts if least is None else parts - least[:, :, None]
    return np.asarray(parts.reshape(len(numbers), -1))


def _q2_k(blocks: Blocks) -> np.ndarray:
    scales, numbers, scale, least = _cut(blocks, 16, 64, 2)
    return _scaled(_bits(numbers, 2, 32), _half(scale) * (scales & 15), _half(least) * (scales >> 4))


def _q3_k(blocks: Blocks) -> np.ndarray:
    high, low, packed, scale = _cut(blocks, 32, 64, 12)
    scales = _bits(packed[:, :8], 4, 8) | (_bits(packed[:, 8:], 2, 4) << 4)
    numbers = _bits(low, 2, 32).astype(np.int8) - ((_bits(high, 1, 32) ^ 1) << 2).astype(np.int8)
    return _scaled(numbers, _half(scale) * (scales.astype(np.float32) - 32))


def _six_bit_scales(packed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eight scales and eight numbers to take off, of six bits each, from twelve bytes."""
    first, second, rest = np.split(packed, 3, axis=1)
    scales = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    least = np.concatenate([second & 63, (rest >> 4) | ((second >> 2) & 48)], axis=1)
    return scales, least


def _q4_k(blocks: Blocks) -> np.ndarray:
    scale, least, packed, numbers = _cut(blocks, 2, 2, 12)
    scales, leasts = _six_bit_scales(packed)
    return _scaled(_bits(numbers, 4, 32), _half(scale) * scales, _half(least) * leasts)


def _q5_k(blocks: Blocks) -> np.ndarray:
    scale, least, packed, high, low = _cut(blocks, 2, 2, 12, 32)
    scales, leasts = _six_bit_scales(packed)
    numbers = _bits(low, 4, 32) | (_bits(high, 1, 32) << 4)
    return _scaled(numbers, _half(scale) * scales, _half(least) * leasts)


def _q6_k(blocks: Blocks) -> np.ndarray:
    low, high, scales, scale = _cut(blocks, 128, 64, 16)
    numbers = (_bits(low, 4, 64) | (_bits(high, 2, 32) << 4)).astype(np.float32) - 32
    return _scaled(numbers, _half(scale) * np.ascontiguousarray(scales).view(np.int8))


BLOCK_TYPES = {
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    10: BlockType("Q2_K", 256, 84, _q2_k),
    11: BlockType("Q3_K", 256, 110, _q3_k),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
}
"""Types by their number in a file; to add one, add a function and a row."""


# The form is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: little-endian; texts and
# lists have their length before them; the sizes of an array begin with the innermost one. Not read with the
# package ``gguf``, which takes counts and offsets from the file unchecked (docs/decisions/0230).

GGUF = b"GGUF"
"""First bytes of a file."""

VERSIONS = (2, 3)

MAX_ROWS = 100_000
"""Settings or arrays of one file; no net has as many."""

MAX_ALIGNMENT = 1 << 20

DTYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("<f4"),
    1: np.dtype("<f2"),
    24: np.dtype("<i1"),
    25: np.dtype("<i2"),
    26: np.dtype("<i4"),
    27: np.dtype("<i8"),
    28: np.dtype("<f8"),
    30: np.dtype(ml_dtypes.bfloat16),
}
"""Element types that stand for themselves, by their number."""

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Types of settings that are numbers, as ``struct`` calls them."""

_TEXT, _LIST = 8, 9


def read_gguf(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, in the order of its table, as the numbers that they stand for.

    Raises:
        ReadError: The file is damaged.
        UnsupportedError: It is of a version, or an array of a type, that is not read.
    """
    content, place = read_bytes(path), str(path)
    header = _Header(content, place)
    alignment = header.settings.get("general.alignment", 32)
    if not isinstance(alignment, int) or not 0 < alignment <= MAX_ALIGNMENT:
        raise ReadError(
            f"has a general.alignment of {alignment!r:.40}, expected a number of bytes", place=place
        )
    begin = -(-header.position // alignment) * alignment
    arrays: dict[str, np.ndarray] = {}
    for row in header.rows:
        if row.name in arrays:
            raise ReadError(f"contains two arrays named {row.name!r:.200}", place=place)
        arrays[row.name] = _array(row, content, begin, f"{place}: {row.name!r:.200}")
    return arrays


@dataclass(frozen=True, slots=True)
class _Row:
    """An entry of the table of arrays; the sizes begin with the innermost one."""

    name: str
    sizes: tuple[int, ...]
    type: int
    offset: int


class _Header:
    """The file before its arrays: numbers and short texts of the settings, and the table."""

    def __init__(self, content: bytes, place: str) -> None:
        self.content = content
        self.place = place
        self.position = len(GGUF)
        version = self.number("I")
        if version not in VERSIONS:
            raise UnsupportedError(
                f"is of version {version:#x}, expected 2 or 3, little-endian; convert it by llama.cpp",
                place=place,
            )
        num_arrays, num_settings = int(self.number("Q")), int(self.number("Q"))
        if max(num_arrays, num_settings) > MAX_ROWS:
            raise ReadError(
                f"would have {num_arrays:,} arrays and {num_settings:,} settings, expected at most "
                f"{MAX_ROWS:,}; was it copied whole?",
                place=place,
            )
        self.settings = {self.text(): self.value(int(self.number("I"))) for _ in range(num_settings)}
        self.rows = [self.row() for _ in range(num_arrays)]

    def number(self, form: str) -> Any:
        """Return the next number."""
        size = struct.calcsize(f"<{form}")
        return struct.unpack(f"<{form}", self.take(size))[0]

    def take(self, num_bytes: int) -> bytes:
        """Return the next bytes."""
        if num_bytes > len(self.content) - self.position:
            raise ReadError(
                f"its header would go on for {num_bytes:,} bytes from byte {self.position:,} of "
                f"{len(self.content):,}; was it copied whole?",
                place=self.place,
            )
        self.position += num_bytes
        return self.content[self.position - num_bytes : self.position]

    def text(self) -> str:
        """Return the next text."""
        return self.take(int(self.number("Q"))).decode("utf-8", "backslashreplace")

    def value(self, kind: int) -> Any:
        """Return the next setting; a list is passed over, since none says how arrays are stored."""
        if kind in _NUMBERS:
            return self.number(_NUMBERS[kind])
        if kind == _TEXT:
            return self.text()
        if kind != _LIST:
            raise ReadError(f"has a setting of type {kind}, which the format does not have", place=self.place)
        inner, count = int(self.number("I")), int(self.number("Q"))
        if inner in _NUMBERS:
            self.take(count * struct.calcsize(f"<{_NUMBERS[inner]}"))
        elif inner == _TEXT:
            for _ in range(count):  # each takes 8 bytes or more, so the file bounds them
                self.take(int(self.number("Q")))
        else:
            raise UnsupportedError(
                f"has a list of type {inner} in its settings, which is not read", place=self.place
            )
        return None

    def row(self) -> _Row:
        """Return the next entry of the table."""
        name, num_axes = self.text(), int(self.number("I"))
        if num_axes > len(self.content):
            raise ReadError(f"has an array of {num_axes:,} axes", place=f"{self.place}: {name!r:.200}")
        sizes = struct.unpack(f"<{num_axes}Q", self.take(8 * num_axes))
        return _Row(name, sizes, int(self.number("I")), int(self.number("Q")))


def _array(row: _Row, content: bytes, begin: int, place: str) -> np.ndarray:
    if num_elements(row.sizes) is None:
        raise ReadError(f"has the sizes {list(row.sizes)!s:.80}, which no array can have", place=place)
    count, shape = prod(row.sizes), row.sizes[::-1]
    blocks = BLOCK_TYPES.get(row.type)
    if blocks is None and row.type not in DTYPES:
        known = ", ".join(kind.name for kind in BLOCK_TYPES.values())
        raise UnsupportedError(
            f"has the type {row.type} of ggml, expected numbers or blocks of {known}; convert it",
            place=place,
        )
    if blocks is not None and (not row.sizes or row.sizes[0] % blocks.size):
        raise ReadError(
            f"has rows of {row.sizes[:1]} numbers, which are not blocks of {blocks.size}", place=place
        )
    dtype = np.dtype(np.uint8) if blocks else DTYPES[row.type]
    num_items = count // blocks.size * blocks.num_bytes if blocks else count
    start, end = begin + row.offset, begin + row.offset + num_items * dtype.itemsize
    if end > len(content):
        raise ReadError(
            f"lies at bytes {start:,} to {end:,} of {len(content):,}; was the file copied whole?", place=place
        )
    stored = np.frombuffer(content, dtype, num_items, start)
    if blocks is None or not num_items:
        return (stored if blocks is None else np.zeros(0, np.float32)).reshape(shape)
    with np.errstate(invalid="ignore", over="ignore"):  # a damaged scale may be no number
        return blocks.real(stored.reshape(-1, blocks.num_bytes)).reshape(shape)
