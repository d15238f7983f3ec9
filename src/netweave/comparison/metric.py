"""The distance of two tensors, and the bounds that tell rounding from difference."""

from __future__ import annotations

from typing import Any

import numpy as np

LOCAL_TOLERANCE = 1e-4
"""Largest error of one group, run on the same inputs, that counts as rounding.

Two engines that compute one layer in float32 differ by 1e-5 to 1e-4 of the rms (decision 0010).
"""

OUTPUT_TOLERANCE = 1e-3
"""Largest error of a net's output that counts as no difference; a fault below it is latent.

Above the bound of one group, since rounding grows with the depth of a net (decision 0010).
"""

WEIGHT_TOLERANCE = 1e-5
"""Largest difference of equal weights, relative to the largest of them (of one output channel for filters).

Weights are copied, not computed: what differs by more was changed. Float32 rounds at 6e-8, so a folded
normalisation, a product and a division, stays far below.
"""

FACTOR_TOLERANCE = 1e-4
"""Largest difference of equal factors: quotients of weights, which round more than the weights."""

BLOCK = 1 << 15
"""Elements of activations that are held against each other at once: some hundred kilobytes of cache."""

MAX_AT_ONCE = 1 << 22
"""Elements of weights that are held against each other at once: what is made of them takes memory, too."""


def differing(a: np.ndarray, b: np.ndarray, *, by_row: bool = False) -> np.ndarray:
    """Return which elements of two stored arrays differ by more than rounding; NaN differs from all.

    Args:
        a: An array.
        b: An array of the same shape.
        by_row: Measure each entry of axis 0 (an output channel) by its own largest element.

    >>> differing(np.array([100.0, 1.0]), np.array([100.0001, 1.1])).tolist()
    [False, True]
    """
    parts = _parts(a)
    bounds = [WEIGHT_TOLERANCE * _largest(a[part], b[part], by_row=by_row) for part in parts]
    if not by_row:
        bounds = [np.max(bounds, axis=0)] * len(parts)
    different: np.ndarray = np.empty(a.shape, bool)
    for part, bound in zip(parts, bounds, strict=True):
        different[part] = ~(np.abs(a[part] - b[part]) <= bound)
    return different


def _parts(x: np.ndarray) -> list[Any]:
    """Return indices of an array that take a bounded number of elements each, along axis 0."""
    if x.size <= MAX_AT_ONCE or x.ndim == 0:
        return [...]
    step = max(1, MAX_AT_ONCE * len(x) // x.size)
    return [slice(start, start + step) for start in range(0, len(x), step)]


def _largest(a: np.ndarray, b: np.ndarray, *, by_row: bool) -> np.ndarray:
    axes = tuple(range(1, a.ndim)) if by_row else None
    largest: np.ndarray = np.maximum(
        np.abs(a).max(axis=axes, keepdims=True, initial=0), np.abs(b).max(axis=axes, keepdims=True, initial=0)
    )
    return largest


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference relative to the rms of ``a``, the worst over the batch (axis 0).

    Elements are not judged one by one, since a relative error near zero says nothing. Values that are not
    finite must be equal. Tensors of different shapes are infinitely far apart.

    >>> round(relative_error(np.array([[3.0, 4.0]]), np.array([[3.0, 4.5]])), 6)
    0.141421
    """
    if a.shape != b.shape:
        return float("inf")
    if a.size == 0:
        return 0.0
    if a.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) else float("inf")
    rows_a = a.reshape(a.shape[0] if a.ndim else 1, -1)
    rows_b = b.reshape(rows_a.shape)
    with np.errstate(all="ignore"):
        difference, power = _of_rows(rows_a, rows_b)
        if not np.isfinite(difference).all() or not np.isfinite(power).all():
            return _error_of_finite(rows_a, rows_b)
        rms = np.sqrt(power)
        errors = np.where(rms > 0, difference / np.maximum(rms, 1e-37), np.where(difference > 0, np.inf, 0.0))
    return float(errors.max())


def _of_rows(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest difference of each row of two matrices, and the mean square of each row of ``a``.

    In blocks that stay in the cache: whole tensors of differences take memory, and four times as long.
    """
    num_rows, num_columns = a.shape
    difference, power = np.zeros(num_rows), np.zeros(num_rows)
    columns = min(num_columns, BLOCK)
    rows = max(1, BLOCK // columns)
    for i in range(0, num_rows, rows):
        for j in range(0, num_columns, columns):
            x, y = a[i : i + rows, j : j + columns], b[i : i + rows, j : j + columns]
            difference[i : i + rows] = np.maximum(difference[i : i + rows], np.abs(x - y).max(axis=1))
            wide = x.astype(np.float64)
            power[i : i + rows] += np.einsum("ij,ij->i", wide, wide)
    return difference, power / num_columns


def _error_of_finite(a: np.ndarray, b: np.ndarray) -> float:
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(
        a[~finite], b[~finite], equal_nan=True
    ):
        return float("inf")
    a, b = np.where(finite, a, 0).astype(np.float64), np.where(finite, b, 0).astype(np.float64)
    rms = float(np.sqrt(np.mean(a * a)))
    worst = float(np.abs(a - b).max())
    return worst / rms if rms else (0.0 if worst == 0 else float("inf"))
