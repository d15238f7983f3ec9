"""Faults in stored arrays, the same for every format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

Change = Callable[[np.ndarray], "np.ndarray | None"]


@dataclass(frozen=True)
class Stored:
    """One stored array.

    Attributes:
        key: Its name in the file.
        layer: The layer that it belongs to.
        role: ``filter`` (outputs, inputs, height, width), ``matrix`` (outputs, inputs), ``bias``, ``gamma``,
            ``mean``, ``variance``, ``slope``, ``constant`` or ``factor`` (Caffe's scale of the statistics).
        image: Channels, height and width that a matrix reads flattened; None if it reads no image.
    """

    key: str
    layer: str
    role: str
    image: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class ArrayFault:
    """A fault in one array: what was done, to which, the mismatches that explain it, and the new values."""

    kind: str
    stored: Stored
    mismatches: frozenset[str]
    in_table: bool
    values: np.ndarray


def array_faults(
    stored: Iterable[Stored], arrays: Mapping[str, np.ndarray], *, count: int
) -> Iterator[ArrayFault]:
    """Yield every kind of fault in at most ``count`` arrays of its role, spread over the net."""
    by_role: dict[str, list[Stored]] = defaultdict(list)
    for entry in stored:
        by_role[entry.role].append(entry)
    for kind, role, change, mismatches, in_table in CHANGES:
        entries = by_role[role]
        if role == "filter" and kind in FIRST_TELLS_INPUT:
            entries = entries[1:]
        if kind == "flatten order":
            entries = [entry for entry in entries if entry.image and min(entry.image[1:]) > 1]
        for entry in spread(entries, count):
            values = arrays[entry.key].copy()
            made = _flattened(values, entry.image) if kind == "flatten order" else change(values)
            if made is not None and not np.array_equal(made, arrays[entry.key]):
                made = np.ascontiguousarray(made.astype(np.float32))
                yield ArrayFault(kind, entry, frozenset(mismatches), in_table, made)
    yield from _first_faults(by_role["filter"], arrays)


def _first_faults(filters: list[Stored], arrays: Mapping[str, np.ndarray]) -> Iterator[ArrayFault]:
    """Yield faults of the first filters that could be of the input, if others can tell that they are not."""
    if sum(min(arrays[entry.key].shape[2:]) > 1 for entry in filters) < LEAST_WITNESSES:
        return
    first = filters[0]
    for kind, change, mismatch in FIRST_CHANGES:
        values = arrays[first.key]
        made = change(values.copy())
        if made is not None and not np.array_equal(made, values):
            made = np.ascontiguousarray(made.astype(np.float32))
            yield ArrayFault(kind, first, frozenset({mismatch}), True, made)


def spread(entries: list, count: int) -> list:
    """Return at most ``count`` entries, spread evenly, the last one among them."""
    if len(entries) <= count:
        return entries
    return [entries[round((i + 1) * len(entries) / count) - 1] for i in range(count)]


def _one(values: np.ndarray) -> np.ndarray:
    flat = values.reshape(-1)
    flat[len(flat) // 3] += 3 * np.abs(flat).max()
    return values


def _constant(values: np.ndarray) -> np.ndarray:
    return values * 1.25 + 0.05


def _rolled(values: np.ndarray) -> np.ndarray:
    return np.roll(values.reshape(-1), values.size // 2 + 1)[::-1].reshape(values.shape)


def _reversed(values: np.ndarray) -> np.ndarray | None:
    return values[:, ::-1] if values.shape[1] > 1 else None


def _turned(values: np.ndarray) -> np.ndarray | None:
    height, width = values.shape[2:]
    return values.swapaxes(2, 3) if height == width > 1 else None


def _flattened(values: np.ndarray, image: tuple[int, int, int] | None) -> np.ndarray | None:
    """Return a matrix with its inputs in the order height, width, channel."""
    if image is None:
        return None
    return values.reshape(len(values), *image).transpose(0, 2, 3, 1).reshape(values.shape)


def _mirrored(values: np.ndarray) -> np.ndarray:
    return values[..., ::-1]


def _doubled(values: np.ndarray) -> np.ndarray | None:
    """Return filters of which one is twice as large; a single one could be any factor on the input."""
    if len(values) < 2:
        return None
    values[len(values) // 2] *= 2
    return values


def _swapped(values: np.ndarray) -> np.ndarray | None:
    if len(values) < 2:
        return None
    values[[0, -1]] = values[[-1, 0]]
    return values


LEAST_WITNESSES = 3
"""Filters with a window that a net needs: a damaged first one and two that say how the image stands."""

FIRST_CHANGES: tuple[tuple[str, Change, str], ...] = (
    ("first layer: transposed", _turned, "axis-order"),
    ("first layer: mirrored", _mirrored, "axis-order"),
    ("first layer: filter doubled", _doubled, "weights"),
    ("first layer: filters swapped", _swapped, "channel-order"),
)
"""Kind, what is done to a net's first filters, and the mismatch that explains it."""

FIRST_TELLS_INPUT = frozenset({"channel order", "axis order"})
"""Faults that in a net's first filters would say that the net takes another input, which is no fault."""

CHANGES: tuple[tuple[str, str, Change, set[str], bool], ...] = (
    ("one weight changed", "filter", _one, {"weights"}, False),
    ("one weight changed", "matrix", _one, {"weights"}, False),
    ("wrong weights loaded", "filter", _rolled, {"weights"}, False),
    ("wrong constant", "constant", _constant, {"weights"}, False),
    ("bias lost", "bias", np.zeros_like, {"weights", "missing-bias"}, True),
    ("channel order", "filter", _reversed, {"channel-order"}, True),
    ("axis order", "filter", _turned, {"axis-order"}, True),
    ("flatten order", "matrix", lambda values: values, {"flatten-order"}, True),
    ("bn: scale factor", "factor", np.ones_like, {"bn-scale-factor"}, True),
    ("bn: gamma as 1", "gamma", np.ones_like, {"fix-gamma"}, True),
    ("prelu: slopes", "slope", lambda values: values * 0 + 0.25, {"slope", "weights"}, True),
)
"""Kind, role of the array, what is done, keys of the mismatches that explain it, whether the table has it."""
