"""Gradients with fewer bits on the link.

``2bit`` is MXNet's rule (``src/kvstore/gradient_compression-inl.h`` at 1.9.1): what could not be sent is kept
as a residual and added to the next gradient, so that nothing is lost, only later.
"""

from __future__ import annotations

import torch
from torch import Tensor

HALF = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""Types on the link by the name of the compression."""

CODES_PER_WORD = 16
"""Two-bit codes in a word of 32 bits."""

CODES_PER_BYTE = 4

_PLUS, _MINUS = 3, 2
"""Codes for plus and minus the threshold; 0 is nothing (MXNet's 11, 10 and 00)."""


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
    residual.add_(gradient)
    plus, minus = residual >= threshold, residual <= -threshold
    residual.sub_(plus.to(residual.dtype) * threshold).add_(minus.to(residual.dtype) * threshold)
    codes = torch.zeros(num_code_bytes(len(residual)) * CODES_PER_BYTE, dtype=torch.uint8)
    codes = codes.to(residual.device)
    codes[: len(residual)] = plus * _PLUS + minus * _MINUS
    first, second, third, fourth = codes.reshape(-1, CODES_PER_BYTE).unbind(1)
    return first << 6 | second << 4 | third << 2 | fourth


def dequantize_2bit(codes: Tensor, num_elements: int, threshold: float, dtype: torch.dtype) -> Tensor:
    """Return what codes stand for.

    Args:
        codes: As ``quantize_2bit`` returns them.
        num_elements: How many elements they are of.
        threshold: What a code stands for.
        dtype: Type of the elements.
    """
    table = torch.tensor([0.0, 0.0, -threshold, threshold], dtype=dtype, device=codes.device)
    shifts = torch.tensor([6, 4, 2, 0], dtype=torch.uint8, device=codes.device)
    numbers = (codes[:, None] >> shifts & 3).reshape(-1)[:num_elements]
    return table[numbers.to(torch.int64)]
