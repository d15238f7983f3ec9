"""What the page says of stored arrays: their range, mean and spread, a histogram, how two of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import parameter_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from netweave.graph import Graph

BINS = 24
"""Bars of a histogram."""

MAX_COUNTED = 1_000_000
"""Elements that a histogram is made of, evenly picked from a larger array."""

SMALL = 1 << 14
"""Arrays up to this size are looked at together: numpy's calls take longer than their elements."""

TOGETHER = 1 << 20
"""Elements of small arrays that are looked at together at most."""

Statistics = dict[str, Any]


def parameter_statistics(graph: Graph) -> dict[str, Statistics]:
    """Return the statistics of the stored arrays whose values come from a file, by key."""
    arrays: dict[str, np.ndarray] = {}
    found: dict[str, Statistics] = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        entry = graph.parameters.get(key or "")
        if not key or entry is None or not entry.loaded or key in found or value.const_value is None:
            continue
        array = value.const_value.numpy()
        is_small = 0 < array.size <= SMALL and array.dtype != np.float64
        found[key] = {} if is_small else array_statistics(array)
        if is_small:
            arrays[key] = array
    for keys in _batches(arrays):
        found |= zip(keys, statistics_together([arrays[key] for key in keys]), strict=True)
    return found


def _batches(arrays: dict[str, np.ndarray]) -> Iterator[list[str]]:
    """Yield keys of arrays that are looked at together."""
    keys: list[str] = []
    size = 0
    for key, array in arrays.items():
        if keys and size + array.size > TOGETHER:
            yield keys
            keys, size = [], 0
        keys.append(key)
        size += array.size
    if keys:
        yield keys


def array_statistics(array: np.ndarray) -> Statistics:
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
    return _row(
        size=int(array.size),
        non_finite=non_finite,
        figures=(low, high, float(flat.mean(dtype=np.float64)), float(flat.std(dtype=np.float64))),
        zeros=int(flat.size - np.count_nonzero(flat)),
        histogram=np.bincount(bins, minlength=BINS).tolist(),
    )


def statistics_together(arrays: Sequence[np.ndarray]) -> Iterable[Statistics]:
    """Return what ``array_statistics`` does of each of some arrays, in passes over all of their elements.

    Args:
        arrays: Arrays of at least one element each, none of doubles.
    """
    flat = np.concatenate([np.asarray(array, np.float32).reshape(-1) for array in arrays])
    if not np.isfinite(flat).all():
        return [array_statistics(array) for array in arrays]
    sizes = np.array([array.size for array in arrays])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    owner = np.repeat(np.arange(len(arrays)), sizes)
    low = np.minimum.reduceat(flat, starts).astype(np.float64)
    high = np.maximum.reduceat(flat, starts).astype(np.float64)
    mean = np.add.reduceat(flat, starts, dtype=np.float64) / sizes
    spread = np.sqrt(np.add.reduceat((flat - mean[owner]) ** 2, starts) / sizes)
    zeros = np.add.reduceat(flat == 0, starts, dtype=np.intp)
    margin = np.where(high > low, 0.0, np.maximum(np.abs(low), 1.0) * 1e-3)
    begin, width = low - margin, (high - low + 2 * margin) / BINS
    bins = np.minimum((flat - begin[owner]) / width[owner], BINS - 1).astype(np.intp)
    counts = np.bincount(owner * BINS + bins, minlength=BINS * len(arrays)).reshape(-1, BINS).tolist()
    figures = zip(low.tolist(), high.tolist(), mean.tolist(), spread.tolist(), strict=True)
    rows = zip(sizes.tolist(), figures, zeros.tolist(), counts, strict=True)
    return [
        _row(size=size, non_finite=0, figures=row, zeros=none, histogram=bars)
        for size, row, none, bars in rows
    ]


def _row(
    *,
    size: int,
    non_finite: int,
    figures: tuple[float, float, float, float],
    zeros: int,
    histogram: list[int],
) -> Statistics:
    low, high, mean, std = figures
    return {
        "size": size,
        "non_finite": non_finite,
        "min": _short(low),
        "max": _short(high),
        "mean": _short(mean),
        "std": _short(std),
        "zeros": zeros,
        "histogram": histogram,
    }


def _short(value: float) -> float:
    """Return a number with the digits that are shown, and two more."""
    return float(f"{value:.6g}")
