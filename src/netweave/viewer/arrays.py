"""What the page says of stored arrays: their range, mean and spread, a histogram, how two of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import parameter_key

if TYPE_CHECKING:
    from netweave.graph import Graph

BINS = 24
"""Bars of a histogram."""

MAX_COUNTED = 1_000_000
"""Elements that a histogram is made of, evenly picked from a larger array."""


def parameter_statistics(graph: Graph) -> dict[str, dict[str, Any]]:
    """Return the statistics of the stored arrays whose values come from a file, by key."""
    found: dict[str, dict[str, Any]] = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        entry = graph.parameters.get(key or "")
        if key and entry is not None and entry.loaded and key not in found and value.const_value is not None:
            found[key] = array_statistics(value.const_value.numpy())
    return found


def array_statistics(array: np.ndarray) -> dict[str, Any]:
    """Return the range, mean, standard deviation, zeros and histogram of an array.

    ``non_finite`` elements are counted and left out of everything else.

    >>> found = array_statistics(np.array([0.0, 1.0, np.nan, 3.0]))
    >>> found["min"], found["max"], found["zeros"], found["non_finite"], sum(found["histogram"])
    (0.0, 3.0, 1, 1, 3)
    """
    flat = np.asarray(array).reshape(-1)
    if flat.dtype != np.float64:
        flat = flat.astype(np.float32)
    non_finite = int(flat.size - np.count_nonzero(np.isfinite(flat)))
    if non_finite:
        flat = flat[np.isfinite(flat)]
    if not flat.size:
        return {"size": int(array.size), "non_finite": non_finite}
    low, high = float(flat.min()), float(flat.max())
    step = -(-flat.size // MAX_COUNTED)
    margin = 0.0 if high > low else max(abs(low), 1.0) * 1e-3
    start, width = low - margin, (high - low + 2 * margin) / BINS
    # np.histogram takes ten times as long for a small array
    bins = np.minimum((flat[::step] - np.float64(start)) / width, BINS - 1).astype(np.intp)
    counts = np.bincount(bins, minlength=BINS)
    return {
        "size": int(array.size),
        "non_finite": non_finite,
        "min": _short(low),
        "max": _short(high),
        "mean": _short(float(flat.mean(dtype=np.float64))),
        "std": _short(float(flat.std(dtype=np.float64))),
        "zeros": int(flat.size - np.count_nonzero(flat)),
        "histogram": [int(count) for count in counts],
    }


def _short(value: float) -> float:
    """Return a number with the digits that are shown, and two more."""
    return float(f"{value:.6g}")
