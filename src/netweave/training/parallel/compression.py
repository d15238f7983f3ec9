"""Gradients with fewer bits on the link.

``2bit`` is MXNet's rule (``src/kvstore/gradient_compression-inl.h`` at 1.9.1): what could not be sent is kept
as a residual and added to the next gradient, so that nothing is lost, only later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Types on the link by the name of the compression."""

CODES_PER_WORD = 16
"""Two-bit codes in a word of 32 bits."""

CODES_PER_BYTE = 4

_PACK = 1 << 30 | 1 << 20 | 1 << 10 | 1
"""Times four codes in the bytes of a word, the first in the lowest: its highest byte is the four codes."""


def num_code_bytes(num_elements: int) -> int:
    """Return the bytes of the codes of so many elements: whole words."""
    return -(-num_elements // CODES_PER_WORD) * 4


def quantize_2bit(gradient: Tensor, residual: Tensor, threshold: float) -> Tensor:
    """Return the codes of a gradient, and keep in ``residual`` what they leave out.

    Args:
        gradient: Elements in one row.
        residual: As many; what was left out before. Changed in place.
        threshold: What a code stands for.

    Returns:
        uint8, ``num_code_bytes`` of them: four codes in a byte, the first in its highest bits.
    """
    # a code is 3 for plus and 2 for minus the threshold, else 0 (MXNet's 11, 10 and 00); on numbers of one
    # byte, and four at a time, as passes over floats are what takes time
    residual.add_(gradient)
    plus, minus = residual >= threshold, residual <= -threshold
    residual.sub_(plus.view(torch.int8) - minus.view(torch.int8), alpha=threshold)
    codes = torch.zeros(num_code_bytes(len(residual)), dtype=torch.int32, device=residual.device)
    of_elements = codes.view(torch.uint8)[: len(residual)]
    torch.bitwise_or(plus, minus, out=of_elements.view(torch.bool))
    of_elements.bitwise_left_shift_(1).bitwise_or_(plus.view(torch.uint8))
    return codes.mul_(_PACK).view(torch.uint8)[3::CODES_PER_BYTE].contiguous()


def sum_2bit(rows: Sequence[Tensor], num_elements: int, threshold: float, dtype: torch.dtype) -> Tensor:
    """Return the sum of what several rows of codes stand for: a multiple of the threshold, rounded once.

    Args:
        rows: As ``quantize_2bit`` returns them, at most 127.
        num_elements: How many elements they are of.
        threshold: What a code stands for.
        dtype: Type of the elements.
    """
    total = _signs(rows[0], num_elements)
    for row in rows[1:]:
        total += _signs(row, num_elements)
    return total.to(dtype).mul_(threshold)


def _signs(codes: Tensor, num_elements: int) -> Tensor:
    """Return 1, 0 or -1 for each element."""
    words = codes.to(torch.int32)
    spread = words >> 6
    for shift, mask in ((4, 3 << 8), (14, 3 << 16), (24, 3 << 24)):
        spread |= (words << shift) & mask
    of_elements = spread.view(torch.int8)[:num_elements]
    return ((of_elements & 1) << 1) - (of_elements >> 1)
