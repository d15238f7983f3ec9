"""How the layout of one tensor relates to that of another: axes, order along an axis, shape.

Two tensors that hold the same values are brought to agree by a permutation of axes (NCHW and NHWC, height
and width swapped) and, if need be, of the entries along the channels (RGB and BGR). Where an input is
flipped, so are the images made of it. The batch stays first.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.layout.change import LayoutChange, reversed_order, unless_plain
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import relative_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_RANK = 5
"""Axes of larger tensors are taken as they are: there would be too many permutations to try."""


def solve_layout(
    a: np.ndarray,
    b: np.ndarray,
    *,
    tolerance: float,
    hints: tuple[tuple[int, ...], ...] = (),
    orientation: str = "",
) -> tuple[LayoutChange, float] | None:
    """Find how ``a`` becomes ``b``, and the error that remains; None if nothing does.

    Args:
        a: A tensor of A, batch first.
        b: A tensor of B of the same size, batch first.
        tolerance: Largest error relative to the rms of ``a`` that counts as equal.
        hints: Permutations to try first.
        orientation: What was done to the image, a key of ``ORIENTATIONS``, for its flips.
    """
    for mapping in candidate_layouts(a.shape, b.shape, hints, orientation):
        error = relative_error(mapping.apply(a), b)
        if error <= tolerance:
            return mapping, error
    if not _same_values(a, b, tolerance):
        return None
    for mapping in candidate_layouts(a.shape, b.shape, hints, orientation):
        ordered = _with_channel_order(mapping, a, b, tolerance)
        if ordered is not None:
            return ordered, relative_error(ordered.apply(a), b)
    return None


def _same_values(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Whether two tensors may hold the same values in some order: their sums are the same."""
    if a.size != b.size or a.dtype.kind != "f":
        return False
    sizes = [float(np.abs(x).sum(dtype=np.float64)) for x in (a, b)]
    return bool(np.isfinite(sizes).all()) and abs(sizes[0] - sizes[1]) <= 10 * tolerance * sizes[0]


def candidate_layouts(
    shape_a: tuple[int, ...],
    shape_b: tuple[int, ...],
    hints: tuple[tuple[int, ...], ...] = (),
    orientation: str = "",
) -> Iterator[LayoutChange]:
    """Yield the layouts that bring sizes ``shape_a`` to ``shape_b``, the plain ones first.

    Args:
        shape_a: Sizes of A's tensor, batch first.
        shape_b: Sizes of B's.
        hints: Permutations to yield first.
        orientation: What was done to the image; if that mirrors it, flipped layouts are yielded as well.

    >>> [m.axes for m in candidate_layouts((1, 3, 4, 5), (1, 4, 5, 3))]
    [(0, 2, 3, 1)]
    """
    for axes, shape in _layouts(shape_a, shape_b, hints):
        plain = LayoutChange(axes=axes, shape=shape)
        if len(shape_a) != 4 or not ORIENTATIONS[orientation].is_flipped:
            yield plain
            continue
        sizes = [shape_a[i] for i in axes] if axes else shape_a
        yield from _flipped(plain, sizes, ORIENTATIONS[orientation].flips, channel_axis=1)
        yield plain
        yield from _flipped(plain, sizes, ORIENTATIONS[orientation].flips, channel_axis=3)


def _flipped(
    plain: LayoutChange, sizes: Sequence[int], flips: tuple[bool, bool], *, channel_axis: int
) -> Iterator[LayoutChange]:
    """Yield a layout with its rows or columns in reversed order, if there are any.

    Args:
        plain: The layout.
        sizes: Sizes after its axes are permuted.
        flips: Whether rows, and whether columns, are reversed.
        channel_axis: B's axis of channels, the first or the last; rows and columns are the others.
    """
    if (plain.axes[channel_axis] if plain.axes else channel_axis) not in {1, 3}:
        return
    image = (2, 3) if channel_axis == 1 else (1, 2)
    axes = [axis for axis, flip in zip(image, flips, strict=True) if flip and sizes[axis] > 1]
    if axes:
        yield replace(plain, orders=tuple((axis, reversed_order(sizes[axis])) for axis in axes))


@lru_cache(maxsize=4096)
def _layouts(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], hints: tuple[tuple[int, ...], ...]
) -> list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]]:
    if prod(shape_a) != prod(shape_b) or not shape_a or not shape_b or shape_a[0] != shape_b[0]:
        return []
    rank = len(shape_a)
    reshaped = (-1, *shape_b[1:])  # the batch is open: a layout holds for any number of samples
    if rank > MAX_RANK:
        return [(None, None if shape_a == shape_b else reshaped)]
    orders = [(0, *rest) for rest in itertools.permutations(range(1, rank))]
    orders.sort(key=lambda axes: (hints.index(axes) if axes in hints else len(hints), axes))
    layouts: list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = []
    for axes in orders:
        moved = tuple(shape_a[i] for i in axes)
        if moved == shape_b:
            layouts.append((unless_plain(axes), None))
        elif _squeezed(moved) == _squeezed(shape_b) or (len(shape_b) < rank and shape_b[1:]):
            layouts.append((unless_plain(axes), reshaped))
    return layouts


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *(size for size in shape[1:] if size != 1))


def _with_channel_order(
    mapping: LayoutChange, a: np.ndarray, b: np.ndarray, tolerance: float
) -> LayoutChange | None:
    """Find the order of the channels, told apart by their values, that makes ``a`` equal ``b``."""
    if a.ndim < 2 or mapping.shape is not None:
        return None
    axis = mapping.axes.index(1) if mapping.axes else 1
    if any(axis == flipped for flipped, _ in mapping.orders):
        return None
    order = match_entries(mapping.apply(a), b, axis=axis)
    if order is None:
        return None
    reordered = replace(mapping, orders=(*mapping.orders, (axis, order)))
    return reordered if relative_error(reordered.apply(a), b) <= tolerance else None


def match_entries(a: np.ndarray, b: np.ndarray, *, axis: int) -> tuple[int, ...] | None:
    """Return the order that brings the entries of ``a`` along an axis to those of ``b``.

    Entries are told apart by their norms over all other axes and paired by rank, so the order is a proposal
    that the caller checks; None if the axes are of different length.
    """
    if a.shape[axis] != b.shape[axis]:
        return None
    ranks_a, ranks_b = (np.argsort(_marks(x, axis), kind="stable") for x in (a, b))
    order = np.empty(len(ranks_a), dtype=np.int64)
    order[ranks_b] = ranks_a
    return tuple(order.tolist())


def _marks(x: np.ndarray, axis: int) -> np.ndarray:
    """Return a number for each entry along an axis that the order along the other axes does not change."""
    rows = np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
    marks: np.ndarray = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return marks
