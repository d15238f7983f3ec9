"""Stored values that one net has with 16 bits and the other with 32."""

from __future__ import annotations

import numpy as np


def rounding_of(a: np.ndarray, b: np.ndarray) -> str:
    """Say which net stores values with 16 bits that the other has with 32; empty if that is no difference.

    >>> rounding_of(np.float32([0.1, 0.7]), np.float32([0.1, 0.7]).astype(np.float16).astype(np.float32))
    "B are A's rounded to float16"
    """
    if a.dtype != np.float32 or a.shape != b.shape or a.size < 2:
        return ""
    with np.errstate(over="ignore"):
        for name, rounded in (("float16", _to_float16), ("bfloat16", _to_bfloat16)):
            if np.array_equal(rounded(a), b):
                return f"B are A's rounded to {name}"
            if np.array_equal(a, rounded(b)):
                return f"A are B's rounded to {name}"
    return ""


def _to_float16(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float16).astype(np.float32)


def _to_bfloat16(x: np.ndarray) -> np.ndarray:
    """Round to the nearest number with the upper 16 bits of a float32, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)
