"""Values and arrays in the viewer."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import Graph, Layer, parameter_key
from netweave.viewer.tables import repeated, table

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import TensorValues


Json = dict[str, Any]

SMALL_BYTES = 1 << 14

MAX_CHANNELS = 1024
"""Channels whose differences are shown; of more, neighbours share a cell, which shows the largest."""

MAX_ARRAY_BYTES = 1 << 30
"""A stored array above this size is not compared element by element."""


def values_json(values: TensorValues | None) -> Json | None:
    """Return the values of a group's output for the page.

    The maps are of 8 bits: A and B on one scale, and their difference on its own, so that one that is small
    beside the values is seen.
    """
    if values is None:
        return None
    with np.errstate(invalid="ignore"):
        difference = values.map_a - values.map_b
    low, high = _range(values.map_a, values.map_b)
    most = float(np.abs(difference[np.isfinite(difference)]).max(initial=0.0))
    return {
        "names": [values.name_a, values.name_b],
        "shape": list(values.shape),
        "place": list(values.place),
        "at_place": [_real(values.value_a), _real(values.value_b)],
        "rms": _real(values.rms),
        "channels": by_cell(values.channel_errors),
        "num_channels": len(values.channel_errors),
        "block": list(values.block),
        "size": list(values.map_a.shape),
        "worst": list(values.worst),
        "range": [_real(low), _real(high)],
        "difference": _real(most),
        "a": _bytes(values.map_a, low, high),
        "b": _bytes(values.map_b, low, high),
        "a_minus_b": _bytes(difference, -most, most),
        "histogram": {
            "range": [_real(values.low), _real(values.high)],
            "a": list(values.counts_a),
            "b": list(values.counts_b),
        },
    }


def by_cell(errors: Iterable[float]) -> list[float | str]:
    """Return differences by channel for as many cells as are shown.

    >>> by_cell([0.0, 0.5])
    [0.0, 0.5]
    """
    known = list(errors)
    share = -(-len(known) // MAX_CHANNELS)
    if share <= 1:
        return list(map(_real, known))
    return [_real(max(known[start : start + share])) for start in range(0, len(known), share)]


class StoredArrays:
    """The stored arrays of a net by layer, to be compared with those of another net."""

    def __init__(self, graph: Graph) -> None:
        self._layers: Mapping[str, Layer] = graph.layers
        self._roles = {key: entry.role for key, entry in graph.parameters.items() if entry.loaded}
        self._arrays = {
            key: value.const_value
            for value in graph.model.graph.initializers.values()
            if (key := parameter_key(value)) and value.const_value is not None
        }

    def of(self, layers: Iterable[str]) -> list[tuple[str, str, np.ndarray]]:
        """Return key, role and values of the arrays of some layers, those that came from a file."""
        keys = dict.fromkeys(
            key for name in layers if name in self._layers for key in self._layers[name].parameters
        )
        return [
            (key, self._roles[key], self._arrays[key].numpy())
            for key in keys
            if key in self._roles and key in self._arrays
        ]


@dataclass(frozen=True, slots=True)
class ChannelDifferences:
    """Differences of two arrays by output channel (axis 0).

    Attributes:
        channels: The largest difference in each channel, or in neighbours together (``by_cell``), relative to
            the largest element of both; empty if they are identical.
        num_channels: How many channels there are.
        transposed: Whether the second was transposed to fit the first.
    """

    channels: tuple[float | str, ...]
    num_channels: int
    transposed: bool


@dataclass(frozen=True, slots=True)
class WeightDifference(ChannelDifferences):
    """Difference of two stored arrays of one role.

    Attributes:
        role: Their role.
        keys: Key in the first net and in the second.
    """

    role: str
    keys: tuple[str, str]


def weight_differences(
    a: StoredArrays, b: StoredArrays, layers: tuple[Iterable[str], Iterable[str]]
) -> list[WeightDifference]:
    """Return how the stored arrays of a group differ: one for each pair of one role and shape.

    Args:
        a: Arrays of the first net.
        b: Arrays of the second net.
        layers: Layers of the group in each net.
    """
    free = b.of(layers[1])
    differences = []
    for key_a, role, x in a.of(layers[0]):
        place = next((n for n, (_, other, y) in enumerate(free) if other == role and _fits(x, y)), None)
        if place is None:
            continue
        key_b, _, y = free.pop(place)
        own = channel_differences(x, y)
        differences.append(
            WeightDifference(own.channels, own.num_channels, own.transposed, role, (key_a, key_b))
        )
    return differences


def channel_differences(x: np.ndarray, y: np.ndarray) -> ChannelDifferences:
    """Return the largest difference in each output channel (axis 0), relative to the array's largest element.

    A matrix that fits only when transposed is transposed.

    >>> channel_differences(np.array([[2.0], [4.0]]), np.array([[2.0], [3.0]])).channels
    (0.0, 0.25)
    """
    transposed = x.shape != y.shape
    other = y.T if transposed else y
    if x.shape == other.shape and _are_equal(x, other):
        return ChannelDifferences((), int(x.shape[0]) if x.ndim else 1, transposed)
    rows_a = np.asarray(x, np.float32).reshape(x.shape[0] if x.ndim else 1, -1)
    rows_b = np.asarray(other, np.float32).reshape(rows_a.shape)
    with np.errstate(all="ignore"):
        largest = max(float(np.abs(rows_a).max(initial=0)), float(np.abs(rows_b).max(initial=0)), 1e-37)
        errors = np.abs(rows_a - rows_b).max(axis=1, initial=0) / largest
    return ChannelDifferences(tuple(by_cell(errors.tolist())), len(errors), transposed)


def _are_equal(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether two arrays of one shape hold the same; of small ones, their bytes tell it sooner."""
    if x.nbytes <= SMALL_BYTES and x.dtype == y.dtype and x.tobytes() == y.tobytes():
        return True
    return np.array_equal(x, y)


def _fits(x: np.ndarray, y: np.ndarray) -> bool:
    if max(x.nbytes, y.nbytes) > MAX_ARRAY_BYTES or x.dtype.kind not in "fiu" or y.dtype.kind not in "fiu":
        return False
    return x.shape == y.shape or (x.ndim == 2 and x.shape == y.T.shape)


def _range(a: np.ndarray, b: np.ndarray) -> tuple[float, float]:
    if a.size and b.size:
        ends = [float(a.min()), float(b.min()), float(a.max()), float(b.max())]
        if all(map(math.isfinite, ends)):  # a nan makes the least of an array one
            return min(ends), max(ends)
    known = np.concatenate([part[np.isfinite(part)] for part in (a, b)])
    return (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)


def _bytes(values: np.ndarray, low: float, high: float) -> str:
    """Return values as bytes from 0 for ``low`` to 254 for ``high``; 255 for what is not finite."""
    if high > low:
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.minimum(np.rint((values - low) / (high - low) * 254), 254)
    else:
        scaled = np.full(values.shape, 127)
    finite = np.isfinite(values)
    if not finite.all():
        scaled = np.where(finite, scaled, 255)
    return base64.b64encode(scaled.astype(np.uint8).tobytes()).decode()


def _real(value: float) -> float | str:
    """Return a number with the digits that are shown; those that JSON lacks as strings."""
    return float(f"{value:.6g}") if math.isfinite(value) else str(value)


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
    for key, array in _stored_arrays(graph):
        of_size.setdefault(array.size, {}).setdefault(numbers[key], array)
    columns = StatisticsColumns()
    known: list[int] = []
    for size, arrays in of_size.items():
        of_this, at_once = list(arrays.values()), max(1, TOGETHER // max(1, size))
        known += arrays
        for start in range(0, len(of_this), at_once):
            columns.extend(statistics_together(of_this[start : start + at_once]))
    return table(len(known), parameter=known, **columns.columns())


def stored_array(graph: Graph, key: str) -> np.ndarray | None:
    """Return the stored array of a key whose values come from a file; None if there is none."""
    return next((array for found, array in _stored_arrays(graph) if found == key), None)


def _stored_arrays(graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        entry = graph.parameters.get(key or "")
        if key and entry is not None and entry.loaded and value.const_value is not None:
            yield key, value.const_value.numpy()


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
    columns = _statistics_of_rows(known[None]) if known.size else nothing
    columns.size, columns.non_finite = [row.size], [row.size - known.size]
    return columns


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
