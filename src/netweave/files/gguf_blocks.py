"""Blocks of small integers with scales, as llama.cpp stores weights (ggml-common.h, ggml-quants.c).

A block of the older types has 32 numbers and one scale, one of the K types 256 numbers with eight or sixteen
scales, which are small integers themselves. N blocks; what a block holds stands in the order of its bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

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
