"""Changes of layout between filters: reoriented, reordered, scaled, and changed besides."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from netweave.comparison.layout.change import LayoutChange, LayoutMatch, reversed_order, unless_plain
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.layout.tensors import match_entries
from netweave.comparison.metric import differing

MAX_COMPARED = 256
"""More input channels are not held against each other one by one: the products grow with their square."""

MIN_SHARE_EQUAL = 0.5
"""Share of the elements that must agree; below it any two filter banks of one size would be related."""

Orders = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""Order of input channels and of output channels; None where they stay."""

INPUTS, OUTPUTS = 1, 0
"""Axes of filters as from ``filters_of``: output channel, input channel, space."""


def match_filters(a: np.ndarray, b: np.ndarray) -> LayoutMatch | None:
    """Find how filters ``a`` became ``b``, both as from ``filters_of``; None if they have nothing in common.

    The change with the fewest differing elements wins; at least half of the elements must be the same.
    """
    if len(a) != len(b) or a.size != b.size or a.ndim != b.ndim:
        return None
    best: LayoutMatch | None = None
    for orientation, oriented in _orientations(a, b.shape):
        for orders in _orders(oriented, b):
            match = _match(oriented, b, orientation, orders)
            if best is None or match.num_different < best.num_different:
                best = match
            if best.is_equal:
                return best
    return best if best is not None and best.num_different <= (1 - MIN_SHARE_EQUAL) * b.size else None


def are_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether filters are the same, element by element and up to rounding."""
    if a.shape != b.shape:
        return False
    return np.array_equal(a, b) or not differing(a, b, by_row=True).any()


def _orientations(a: np.ndarray, shape: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    if a.ndim < 4 or prod(a.shape[2:]) == 1:
        return [("", a)] if a.shape == shape else []
    oriented = [(name, orientation(a)) for name, orientation in ORIENTATIONS.items()]
    return [(name, x) for name, x in oriented if x.shape == shape]


def _orders(a: np.ndarray, b: np.ndarray) -> Iterator[Orders]:
    """Yield (order of inputs, order of outputs) to try, the likely ones first."""
    tried: list[Orders] = [(None, None)]
    yield None, None
    unit_a, unit_b = (np.abs(x) / (_norms(x) + 1e-30) for x in (a, b))
    inputs = unless_plain(match_entries(unit_a, unit_b, axis=INPUTS))
    # square roots, since the squares of every output channel sum up to 1 and tell none from another
    outputs = unless_plain(match_entries(np.sqrt(unit_a), np.sqrt(unit_b), axis=OUTPUTS))
    likely = unless_plain(_likeliest_inputs(a, b))
    for orders in ((inputs, None), (None, outputs), (inputs, outputs), (likely, None)):
        if orders not in tried:
            tried.append(orders)
            yield orders


def _likeliest_inputs(a: np.ndarray, b: np.ndarray) -> tuple[int, ...] | None:
    """Return the order of A's input channels in which they point the same way as B's.

    Sizes per channel change with one wrong filter or one scaled channel; directions over all filters hardly.
    """
    if a.shape[1] != b.shape[1] or not 1 < a.shape[1] <= MAX_COMPARED:
        return None
    rows_a, rows_b = (np.moveaxis(x / (_norms(x) + 1e-30), 1, 0).reshape(x.shape[1], -1) for x in (a, b))
    sizes = [np.linalg.norm(rows, axis=1) + 1e-30 for rows in (rows_a, rows_b)]
    likeness = np.abs(rows_b @ rows_a.T) / np.outer(sizes[1], sizes[0])
    order = np.zeros(len(likeness), dtype=np.int64)
    for _ in order:  # the best pair of those that are left
        i, j = np.unravel_index(int(likeness.argmax()), likeness.shape)
        order[i] = j
        likeness[i, :] = likeness[:, j] = -1
    return tuple(order.tolist())


def _norms(x: np.ndarray) -> np.ndarray:
    rows = x.reshape(len(x), -1)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    shaped: np.ndarray = norms.reshape(-1, *[1] * (x.ndim - 1))
    return shaped


def _match(oriented: np.ndarray, b: np.ndarray, orientation: str, orders: Orders) -> LayoutMatch:
    """Hold filters, reoriented already, against B's under one pair of channel orders."""
    inputs, outputs = orders
    moved = oriented[list(outputs)] if outputs else oriented
    moved = moved[:, list(inputs)] if inputs else moved
    rows_a = moved.reshape(len(b), -1).astype(np.float64)
    rows_b = b.reshape(len(b), -1).astype(np.float64)
    different, factors = differing(rows_a, rows_b, by_row=True), None
    if different.any():
        likely = _factors(rows_a, rows_b)
        scaled = differing(rows_a * likely[:, None], rows_b, by_row=True)
        # a factor must explain half of what differs: any factor explains a few elements
        if scaled.sum() < 0.5 * different.sum():
            different, factors = scaled, likely
    worst = None
    if different.any():
        gap = np.abs(rows_a * (1.0 if factors is None else factors[:, None]) - rows_b)
        worst = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), b.shape))
    change = _change(b.shape, orientation, orders)
    return LayoutMatch(change, int(different.sum()), b.size, worst, factors=factors)


def _change(shape: tuple[int, ...], orientation: str, orders: Orders) -> LayoutChange:
    rank = len(shape)
    rows, columns = rank - 2, rank - 1
    flips = zip((rows, columns), ORIENTATIONS[orientation].flips, strict=True)
    channels = zip((INPUTS, OUTPUTS), orders, strict=True)
    return LayoutChange(
        axes=(*range(rank - 2), columns, rows) if ORIENTATIONS[orientation].swap else None,
        orders=(
            *((axis, reversed_order(shape[axis])) for axis, flip in flips if flip),
            *((axis, order) for axis, order in channels if order is not None),
        ),
    )


def _factors(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the factor per row that most elements agree on."""
    with np.errstate(all="ignore"):
        # elements of zero, or next to it, say nothing of a factor
        ratio = np.where(np.abs(a) > 1e-12, b / a, np.nan)
        factors = np.array(
            [np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else 1.0 for row in ratio]
        )
    return np.where(np.isfinite(factors), factors, 1.0)
