"""How the layout of one tensor relates to that of another: axes, order along an axis, shape.

Two tensors that hold the same values are brought to agree by a permutation of axes (NCHW and NHWC, height
and width swapped) and, if need be, of the entries along the channels (RGB and BGR). The batch stays first.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.compare.metric import relative_error
from netweave.compare.result.comparison import TensorMapping

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RANK = 5
"""Axes of larger tensors are taken as they are: there would be too many permutations to try."""


def solve_layout(
    a: np.ndarray, b: np.ndarray, *, tolerance: float, hints: tuple[tuple[int, ...], ...] = ()
) -> tuple[TensorMapping, float] | None:
    """Find how ``a`` becomes ``b``, and the error that remains; None if nothing does.

    Args:
        a: A tensor of A, batch first.
        b: A tensor of B of the same size, batch first.
        tolerance: Largest error relative to the rms of ``a`` that counts as equal.
        hints: Permutations to try first.
    """
    for mapping in candidate_layouts(a.shape, b.shape, hints):
        error = relative_error(mapping.apply(a), b)
        if error <= tolerance:
            return mapping, error
    if not _same_values(a, b, tolerance):
        return None
    for mapping in candidate_layouts(a.shape, b.shape, hints):
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
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], hints: tuple[tuple[int, ...], ...] = ()
) -> Iterator[TensorMapping]:
    """Yield the layouts that bring sizes ``shape_a`` to ``shape_b``, the plain ones first.

    >>> [m.axes for m in candidate_layouts((1, 3, 4, 5), (1, 4, 5, 3))]
    [(0, 2, 3, 1)]
    """
    yield from (
        TensorMapping("", "", axes=axes, shape=shape) for axes, shape in _layouts(shape_a, shape_b, hints)
    )


@lru_cache(maxsize=4096)
def _layouts(
    shape_a: tuple[int, ...], shape_b: tuple[int, ...], hints: tuple[tuple[int, ...], ...]
) -> list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]]:
    if prod(shape_a) != prod(shape_b) or not shape_a or not shape_b or shape_a[0] != shape_b[0]:
        return []
    rank = len(shape_a)
    reshaped = None if rank == len(shape_b) else shape_b[1:]
    if rank > MAX_RANK:
        return [(None, reshaped if reshaped else (None if shape_a == shape_b else shape_b[1:]))]
    orders = [(0, *rest) for rest in itertools.permutations(range(1, rank))]
    orders.sort(key=lambda axes: (hints.index(axes) if axes in hints else len(hints), axes))
    found: list[tuple[tuple[int, ...] | None, tuple[int, ...] | None]] = []
    for axes in orders:
        moved = tuple(shape_a[i] for i in axes)
        plain = None if axes == tuple(range(rank)) else axes
        if moved == shape_b:
            found.append((plain, None))
        elif _squeezed(moved) == _squeezed(shape_b) or (reshaped and len(shape_b) < rank):
            found.append((plain, shape_b[1:]))
    return found


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *(size for size in shape[1:] if size != 1))


def _with_channel_order(
    mapping: TensorMapping, a: np.ndarray, b: np.ndarray, tolerance: float
) -> TensorMapping | None:
    """Find the order of the channels, told apart by their values, that makes ``a`` equal ``b``."""
    moved = a.transpose(mapping.axes) if mapping.axes else a
    if moved.ndim < 2 or mapping.shape is not None:
        return None
    axis = mapping.axes.index(1) if mapping.axes else 1
    order = match_entries(moved, b, axis=axis)
    if order is None:
        return None
    found = replace(mapping, orders=((axis, order),))
    return found if relative_error(found.apply(a), b) <= tolerance else None


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
    found: np.ndarray = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return found


def describe_axes(mapping: TensorMapping, *, channel_axis: int | None = 1) -> str:
    """Return a layout in words; empty for "as it is".

    Args:
        mapping: How A's tensor becomes B's.
        channel_axis: A's axis of channels, which gives the others their names; None if it has none.
    """
    parts = []
    if mapping.axes is not None:
        parts.append(_axes_in_words(mapping.axes, channel_axis))
    for axis, order in mapping.orders:
        parts.append(_order_in_words(axis, order, mapping.axes))
    if mapping.scale != 1.0:
        parts.append(f"values times {mapping.scale:.6g}")
    return ", ".join(parts)


def _axes_in_words(axes: tuple[int, ...], channel_axis: int | None) -> str:
    if len(axes) == 4 and channel_axis == 1:
        letters = "".join("NCHW"[i] for i in axes)
        known = {
            "NCWH": "height and width swapped",
            "NHWC": "channels last (NHWC)",
            "NWHC": "channels last (NHWC) with height and width swapped",
        }
        return known.get(letters, f"axes NCHW in the order {letters}")
    return f"axes in the order {axes}"


def _order_in_words(axis: int, order: tuple[int, ...], axes: tuple[int, ...] | None) -> str:
    is_channel = (axes[axis] if axes else axis) == 1
    noun = "channels" if is_channel else f"entries of axis {axis}"
    if order == tuple(reversed(range(len(order)))):
        return f"{noun} reversed" + (" (RGB and BGR)" if is_channel and len(order) == 3 else "")
    shown = ", ".join(map(str, order[:8])) + (", ..." if len(order) > 8 else "")
    return f"{noun} in the order {shown}"
