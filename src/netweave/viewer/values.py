"""Values on the page: maps of tensors in both nets, and differences by channel."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.graph import parameter_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from netweave.comparison.result.tensor_values import TensorValues
    from netweave.graph import Graph, Layer

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
    found = []
    for key_a, role, x in a.of(layers[0]):
        place = next((n for n, (_, other, y) in enumerate(free) if other == role and _fits(x, y)), None)
        if place is None:
            continue
        key_b, _, y = free.pop(place)
        own = channel_differences(x, y)
        found.append(WeightDifference(own.channels, own.num_channels, own.transposed, role, (key_a, key_b)))
    return found


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
