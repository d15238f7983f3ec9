"""What the page says of stored arrays: their range, mean and spread, a histogram, how two of them differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import parameter_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph

BINS = 24
"""Bars of a histogram."""

DIGITS = 6
"""Significant digits of a number: those that are shown, and two more."""

MAX_COUNTED = 1_000_000
"""Elements that a histogram is made of, evenly picked from a larger array."""

TOGETHER = 1 << 16
"""Elements of arrays of one size that are looked at together at most: numpy's calls take longer than the
elements of most arrays, and so many doubles stay in a processor's cache."""

Statistics = dict[str, Any]


def parameter_statistics(graph: Graph) -> dict[str, Statistics]:
    """Return the statistics of the stored arrays whose values come from a file, by key."""
    of_size: dict[int, dict[str, np.ndarray]] = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        entry = graph.parameters.get(key or "")
        if key and entry is not None and entry.loaded and value.const_value is not None:
            array = value.const_value.numpy()
            of_size.setdefault(array.size, {}).setdefault(key, array)
    found: dict[str, Statistics] = {}
    for size, arrays in of_size.items():
        keys, at_once = list(arrays), max(1, TOGETHER // max(1, size))
        for start in range(0, len(keys), at_once):
            some = keys[start : start + at_once]
            found |= zip(some, statistics_together([arrays[key] for key in some]), strict=True)
    return found


def array_statistics(array: np.ndarray) -> Statistics:
    """Return the range, mean, standard deviation, zeros and histogram of an array.

    ``non_finite`` elements are counted and left out of everything else.

    >>> found = array_statistics(np.array([0.0, 1.0, np.nan, 3.0]))
    >>> found["min"], found["max"], found["zeros"], found["non_finite"], sum(found["histogram"])
    (0.0, 3.0, 1, 1, 3)
    """
    return statistics_together([array])[0]


def statistics_together(arrays: Sequence[np.ndarray]) -> list[Statistics]:
    """Return what ``array_statistics`` does of each of some arrays of one size."""
    size = arrays[0].size
    if not size:
        return [{"size": 0, "non_finite": 0} for _ in arrays]
    rows = np.empty((len(arrays), size), np.float64)
    for row, array in zip(rows, arrays, strict=True):
        row[:] = array.reshape(-1)
    # a nan makes both of them one
    are_finite = np.isfinite(rows.min(axis=1)) & np.isfinite(rows.max(axis=1))
    if are_finite.all():
        return _statistics_of_rows(rows)
    return [
        _statistics_of_rows(row[None])[0] if is_finite else _statistics_of_finite(row)
        for row, is_finite in zip(rows, are_finite.tolist(), strict=True)
    ]


def _statistics_of_finite(row: np.ndarray) -> Statistics:
    """Return the statistics of what is finite in an array."""
    known = row[np.isfinite(row)]
    found = _statistics_of_rows(known[None])[0] if known.size else {}
    return found | {"size": row.size, "non_finite": row.size - known.size}


def _statistics_of_rows(rows: np.ndarray) -> list[Statistics]:
    """Return the statistics of each row of a matrix of doubles, all finite; the matrix is changed."""
    num_rows, size = rows.shape
    low, high, mean = rows.min(axis=1), rows.max(axis=1), rows.mean(axis=1)
    zeros = size - np.count_nonzero(rows, axis=1)
    margin = np.where(high > low, 0.0, np.maximum(np.abs(low), 1.0) * 1e-3)
    begin, width = low - margin, (high - low + 2 * margin) / BINS
    counted = rows[:, :: -(-size // MAX_COUNTED)]
    bins = ((counted - begin[:, None]) / width[:, None]).astype(np.intp)
    np.minimum(bins, BINS - 1, out=bins)  # the last bar includes its end
    bins += BINS * np.arange(num_rows)[:, None]
    counts = np.bincount(bins.reshape(-1), minlength=BINS * num_rows).reshape(num_rows, BINS)
    rows -= mean[:, None]
    spread = np.sqrt(np.einsum("ij,ij->i", rows, rows) / size)
    figures = shortened(np.stack([low, high, mean, spread])).tolist()
    return [
        {
            "size": size,
            "non_finite": 0,
            "min": least,
            "max": most,
            "mean": middle,
            "std": std,
            "zeros": none,
            "histogram": bars,
        }
        for least, most, middle, std, none, bars in zip(
            *figures, zeros.tolist(), counts.tolist(), strict=True
        )
    ]


def shortened(values: np.ndarray) -> np.ndarray:
    """Return numbers with the digits that are shown, and two more.

    >>> shortened(np.array([0.0, 1 / 3, -123456.789, 2e-9 / 3, 1e300 / 7])).tolist()
    [0.0, 0.333333, -123457.0, 6.66667e-10, 1.42857e+299]
    """
    exponents = np.floor(np.log10(np.abs(values), where=values != 0, out=np.zeros_like(values)))
    # a power of ten that doubles hold exactly, so that the quotient is the nearest to the decimal
    places = np.clip(DIGITS - 1 - exponents, -22, 22)
    is_usual = places == DIGITS - 1 - exponents
    times, by = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    short: np.ndarray = np.rint(values * times / by) / times * by
    if not is_usual.all():
        short[~is_usual] = [float(f"{value:.{DIGITS}g}") for value in values[~is_usual].tolist()]
    return short
