"""How the filters of one net became those of another: turned, reordered, scaled, and changed besides."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.layout import match_entries
from netweave.comparison.align.turns import TURNS

if TYPE_CHECKING:
    from collections.abc import Iterator

SAME_WEIGHTS = 1e-5
"""Largest difference of equal weights, relative to the largest of their channel."""

MAX_COMPARED = 256
"""More input channels are not held against each other one by one."""

Orders = tuple[tuple[int, ...] | None, tuple[int, ...] | None]
"""Order of input channels and of output channels; None where they stay."""


@dataclass(frozen=True, slots=True)
class Relation:
    """How the filters of A became those of B.

    Attributes:
        turn: Key of ``TURNS``.
        in_order: Input channel ``i`` of B is ``in_order[i]`` of A; None if they stay.
        out_order: The same for output channels.
        scale: Factor per output channel of B; None if all are 1.
        num_different: Elements that differ all the same.
        num_elements: Elements in all.
        worst: Index in B, (output, input, ...), of the largest difference; None if there is none.
    """

    turn: str = ""
    in_order: tuple[int, ...] | None = None
    out_order: tuple[int, ...] | None = None
    scale: np.ndarray | None = None
    num_different: int = 0
    num_elements: int = 0
    worst: tuple[int, ...] | None = None

    @property
    def is_equal(self) -> bool:
        """Whether the weights are the same but for order and scale."""
        return self.num_different == 0


def relate(a: np.ndarray, b: np.ndarray) -> Relation | None:
    """Find how filters ``a`` became ``b``, both as from ``filters_of``; None if they have nothing in common.

    The relation with the fewest differing elements wins; at least half of the elements must be the same.
    """
    if len(a) != len(b) or a.size != b.size or a.ndim != b.ndim:
        return None
    best: Relation | None = None
    for turn, turned in _turned(a, b.shape):
        for in_order, out_order in _orders(turned, b):
            found = _measure(turned, b, turn, in_order, out_order)
            if best is None or found.num_different < best.num_different:
                best = found
            if best.is_equal:
                return best
    return best if best is not None and best.num_different <= 0.5 * b.size else None


def _turned(a: np.ndarray, shape: tuple[int, ...]) -> list[tuple[str, np.ndarray]]:
    if a.ndim < 4 or prod(a.shape[2:]) == 1:
        return [("", a)] if a.shape == shape else []
    turned = [(name, turn(a)) for name, turn in TURNS.items()]
    return [(name, x) for name, x in turned if x.shape == shape]


def _orders(a: np.ndarray, b: np.ndarray) -> Iterator[Orders]:
    """Yield (order of inputs, order of outputs) to try, the likely ones first."""
    tried: list[Orders] = [(None, None)]
    yield None, None
    unit_a, unit_b = (np.abs(x) / (_norms(x) + 1e-30) for x in (a, b))
    in_order = match_entries(unit_a, unit_b, axis=1)
    out_order = match_entries(np.sqrt(unit_a), np.sqrt(unit_b), axis=0)  # their squares all sum up to 1
    plain_in, plain_out = _unless_plain(in_order), _unless_plain(out_order)
    likely = _unless_plain(_likeliest_inputs(a, b))
    for orders in ((plain_in, None), (None, plain_out), (plain_in, plain_out), (likely, None)):
        if orders not in tried:
            tried.append(orders)
            yield orders


def _unless_plain(order: tuple[int, ...] | None) -> tuple[int, ...] | None:
    return None if order is None or order == tuple(range(len(order))) else order


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


def _measure(
    a: np.ndarray,
    b: np.ndarray,
    turn: str,
    in_order: tuple[int, ...] | None,
    out_order: tuple[int, ...] | None,
) -> Relation:
    moved = a[list(out_order)] if out_order else a
    moved = moved[:, list(in_order)] if in_order else moved
    rows_a = moved.reshape(len(a), -1).astype(np.float64)
    rows_b = b.reshape(len(b), -1).astype(np.float64)
    different = _different(rows_a, rows_b)
    scale = None
    if different.any():
        factor = _factors(rows_a, rows_b)
        scaled = _different(rows_a * factor[:, None], rows_b)
        if scaled.sum() < 0.5 * different.sum():
            different, scale = scaled, factor
    worst = None
    if different.any():
        gap = np.abs(rows_a * (1.0 if scale is None else scale[:, None]) - rows_b)
        worst = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), b.shape))
    return Relation(
        turn=turn,
        in_order=in_order,
        out_order=out_order,
        scale=scale,
        num_different=int(different.sum()),
        num_elements=b.size,
        worst=worst,
    )


def are_same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether filters are the same, element by element and up to rounding."""
    if a.shape != b.shape:
        return False
    return np.array_equal(a, b) or not _different(a.reshape(len(a), -1), b.reshape(len(b), -1)).any()


def _different(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    bound = SAME_WEIGHTS * np.maximum(np.abs(a).max(axis=1), np.abs(b).max(axis=1))
    found: np.ndarray = np.abs(a - b) > bound[:, None]
    return found


def _factors(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the factor per row that most elements agree on."""
    with np.errstate(all="ignore"):
        ratio = np.where(np.abs(a) > 1e-12, b / a, np.nan)
        found = np.array(
            [np.median(row[np.isfinite(row)]) if np.isfinite(row).any() else 1.0 for row in ratio]
        )
    return np.where(np.isfinite(found), found, 1.0)
