"""Stored arrays on the page: range, mean and spread, a histogram, differences of pairs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import parameter_key
from netweave.viewer.tables import repeated, table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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


def statistics_table(graph: Graph, numbers: Mapping[str, int]) -> dict[str, Any]:
    """Return the statistics of the stored arrays whose values come from a file, as a table.

    Args:
        graph: The graph.
        numbers: Numbers of the stored arrays by key: the column ``parameter``.
    """
    of_size: dict[int, dict[int, np.ndarray]] = {}
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        entry = graph.parameters.get(key or "")
        if key and entry is not None and entry.loaded and value.const_value is not None:
            array = value.const_value.numpy()
            of_size.setdefault(array.size, {}).setdefault(numbers[key], array)
    found = StatisticsColumns()
    known: list[int] = []
    for size, arrays in of_size.items():
        of_this, at_once = list(arrays.values()), max(1, TOGETHER // max(1, size))
        known += arrays
        for start in range(0, len(of_this), at_once):
            found.extend(statistics_together(of_this[start : start + at_once]))
    return table(len(known), parameter=known, **found.columns())


@dataclass(slots=True)
class StatisticsColumns:
    """Statistics of arrays, each a list with an entry for each array.

    Attributes:
        size: Elements.
        non_finite: Those of them that are nan or infinite, and are left out of everything else.
        min: The least; None where there is none, as all that follows.
        max: The largest.
        mean: The mean.
        std: The standard deviation.
        zeros: How many are zero.
        histogram: How many lie in each of ``BINS`` equal parts of the range.
    """

    size: list[int] = field(default_factory=list)
    non_finite: list[int] = field(default_factory=list)
    min: list[float | None] = field(default_factory=list)
    max: list[float | None] = field(default_factory=list)
    mean: list[float | None] = field(default_factory=list)
    std: list[float | None] = field(default_factory=list)
    zeros: list[int | None] = field(default_factory=list)
    histogram: list[list[int] | None] = field(default_factory=list)

    def extend(self, other: StatisticsColumns) -> None:
        """Append the statistics of further arrays."""
        for each in fields(self):
            getattr(self, each.name).extend(getattr(other, each.name))

    def columns(self) -> dict[str, Any]:
        """Return them as columns of a table."""
        counts = {"size", "non_finite", "zeros"}
        entries = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: repeated(list_) if name in counts else list_ for name, list_ in entries.items()}


def statistics_together(arrays: Sequence[np.ndarray]) -> StatisticsColumns:
    """Return the range, mean, standard deviation, zeros and histogram of each of some arrays of one size.

    >>> found = statistics_together([np.array([0.0, 1.0, np.nan, 3.0])])
    >>> found.min, found.max, found.zeros, found.non_finite, sum(found.histogram[0])
    ([0.0], [3.0], [1], [1], 3)
    """
    size = arrays[0].size
    rows = np.empty((len(arrays), size), np.float64)
    for row, array in zip(rows, arrays, strict=True):
        row[:] = array.reshape(-1)
    # a nan makes both of them one
    if size and np.isfinite(rows.min(axis=1)).all() and np.isfinite(rows.max(axis=1)).all():
        return _statistics_of_rows(rows)
    found = StatisticsColumns()
    for row in rows:
        found.extend(_statistics_of_finite(row))
    return found


def _statistics_of_finite(row: np.ndarray) -> StatisticsColumns:
    """Return the statistics of what is finite in an array."""
    known = row[np.isfinite(row)]
    nothing = StatisticsColumns([0], [0], [None], [None], [None], [None], [None], [None])
    found = _statistics_of_rows(known[None]) if known.size else nothing
    found.size, found.non_finite = [row.size], [row.size - known.size]
    return found


def _statistics_of_rows(rows: np.ndarray) -> StatisticsColumns:
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
    least, most, middle, std = shortened(np.stack([low, high, mean, spread])).tolist()
    return StatisticsColumns(
        [size] * num_rows, [0] * num_rows, least, most, middle, std, zeros.tolist(), list(counts.tolist())
    )


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
