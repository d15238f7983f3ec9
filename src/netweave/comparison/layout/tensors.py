"""Layouts of tensors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np

from netweave.comparison.layout.change import LayoutChange, LayoutMatch, reversed_order, unless_plain
from netweave.comparison.layout.notation import FILTERS, Layout, axes_between, layouts_of
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import differing, relative_error

# Two tensors that hold the same values are brought to agree by a permutation of axes (NCHW and NHWC, height
# and width swapped) and, if need be, of the entries along the channels (RGB and BGR). Where an input is
# flipped, so are the images made of it. The batch stays first.

Sizes = tuple[int, ...]

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
    if a.ndim != b.ndim and a.shape[:1] == b.shape[:1] and a.size == b.size:
        regrouped = LayoutChange(shape=(-1, *b.shape[1:]))
        error = relative_error(regrouped.apply(a), b)
        if error <= tolerance:
            return regrouped, error
    if not _same_values(a, b, tolerance):
        return None
    for mapping in candidate_layouts(a.shape, b.shape, hints, orientation):
        ordered = _with_channel_order(mapping, a, b, tolerance)
        if ordered is not None:
            return ordered, relative_error(ordered.apply(a), b)
    return None


def _same_values(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    """Return whether two tensors may hold the same values in some order: their sums are the same."""
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
    for plain in _layouts(tuple(shape_a), tuple(shape_b), hints):
        axes = plain.axes
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
def _layouts(shape_a: Sizes, shape_b: Sizes, hints: tuple[Sizes, ...]) -> list[LayoutChange]:
    if prod(shape_a) != prod(shape_b):
        return []
    if not shape_a or not shape_b:  # a number has no batch
        return [LayoutChange(shape=None if shape_a == shape_b else shape_b)]
    keeps_batch = shape_a[0] == shape_b[0]
    reshaped = (-1, *shape_b[1:])  # the batch is open: a layout holds for any number of samples
    rank = len(shape_a)
    if max(rank, len(shape_b)) > MAX_RANK:
        own = None if shape_a == shape_b else reshaped
        return [LayoutChange(shape=own)] if keeps_batch else []
    layouts: list[LayoutChange] = []
    for axes in _permutations(rank, hints):
        moved = tuple(shape_a[i] for i in axes)
        if moved == shape_b:
            layouts.append(LayoutChange(axes=unless_plain(axes)))
        elif _is_regrouped(moved, shape_b, keeps_batch=keeps_batch):
            layouts.append(LayoutChange(axes=unless_plain(axes), shape=reshaped))
    if rank < len(shape_b):
        layouts += _splits(shape_a, shape_b, hints)
    return layouts


def _permutations(rank: int, hints: tuple[Sizes, ...]) -> list[Sizes]:
    """Return the orders of axes that leave the batch first, the hints before the others."""
    orders = [(0, *rest) for rest in itertools.permutations(range(1, rank))]
    return sorted(orders, key=lambda axes: (hints.index(axes) if axes in hints else len(hints), axes))


def _is_regrouped(moved: Sizes, shape_b: Sizes, *, keeps_batch: bool) -> bool:
    """Return whether sizes become B's by joining neighbouring axes, or by axes of size 1 that come or go."""
    if keeps_batch:
        return _squeezed(moved) == _squeezed(shape_b) or (len(shape_b) < len(moved) and bool(shape_b[1:]))
    if 1 in {moved[0], shape_b[0]} and _without_ones(moved) == _without_ones(shape_b):
        return True  # a batch of one comes or goes
    # a dense layer of B may see all positions of all samples as rows of one matrix
    joins_batch = len(shape_b) < len(moved) and bool(shape_b[1:]) and shape_b[0] > moved[0]
    return joins_batch and is_split_of(moved, shape_b)


def _splits(shape_a: Sizes, shape_b: Sizes, hints: tuple[Sizes, ...]) -> Iterator[LayoutChange]:
    """Yield the layouts that cut A's axes into B's, such as rows of a matrix into positions of an image."""
    if _squeezed(shape_a) == _squeezed(shape_b) or shape_a[0] < shape_b[0]:
        return
    for axes in _permutations(len(shape_b), hints):
        cut = [0] * len(axes)
        for place, axis in enumerate(axes):
            cut[axis] = shape_b[place]
        if is_split_of(tuple(cut), shape_a):
            plain = unless_plain(axes) is None
            yield (
                LayoutChange(shape=(-1, *shape_b[1:]))
                if plain
                else LayoutChange(split=(-1, *cut[1:]), axes=axes)
            )


def is_split_of(cut: Sequence[int], whole: Sequence[int]) -> bool:
    """Return whether sizes are those of a tensor with some axes cut into several.

    >>> is_split_of((2, 8, 6, 4), (96, 4)), is_split_of((2, 8, 6, 4), (2, 32, 6))
    (True, False)
    """
    left = list(cut)
    for size in whole:
        product = 1
        while left and (product < size or left[0] == 1):
            product *= left.pop(0)
        if product != size:
            return False
    return not left


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return (shape[0], *_without_ones(shape[1:]))


def _without_ones(shape: Sequence[int]) -> Sizes:
    """Return sizes without those that are 1."""
    return tuple(size for size in shape if size != 1)


def _with_channel_order(
    mapping: LayoutChange, a: np.ndarray, b: np.ndarray, tolerance: float
) -> LayoutChange | None:
    """Find the order of the channels, told apart by their values, that makes ``a`` equal ``b``."""
    if a.ndim < 2 or mapping.shape is not None or mapping.split is not None:
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
    if rows.dtype.kind == "V":  # bfloat16 and the other types of ml_dtypes, which einsum does not know
        rows = rows.astype(np.float32)
    marks: np.ndarray = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return marks


def match_stored(
    a: np.ndarray, b: np.ndarray, hints: Sequence[LayoutChange] = (), *, b_is_net: bool = False
) -> LayoutMatch | None:
    """Return the change that leaves the fewest elements different; None if the arrays cannot be one another.

    Args:
        a: An array of A.
        b: An array of B.
        hints: Changes of other arrays, the likeliest first; of changes that do as well, the first of them.
        b_is_net: As in ``layouts_of``.
    """
    if a.size != b.size or not a.size:
        return None
    rms = float(np.sqrt(np.mean(a * a)))
    known = {_kind(hint): rank for rank, hint in reversed(list(enumerate(hints)))}
    changes = sorted(
        _changes(a.shape, b.shape, b_is_net=b_is_net), key=lambda change: known.get(_kind(change), len(hints))
    )
    best: LayoutMatch | None = None
    for change in changes:
        changed = change.apply(a)
        num_different = int(np.count_nonzero(differing(changed, b)))
        if best is None or num_different < best.num_different:
            gap = np.abs(changed - b)
            worst = tuple(int(i) for i in np.unravel_index(int(gap.argmax()), gap.shape))
            best = LayoutMatch(change, num_different, b.size, worst, float(gap.max()) / (rms or 1.0))
        if best.is_equal:
            return best
    return best


def _kind(change: LayoutChange) -> tuple[str, str, str]:
    """Return what a change has in common with those of other arrays of a net, whatever their sizes."""
    letters = change.letters_in_b
    return change.letters, letters, "".join(letters[axis] for axis, _ in change.orders)


def _changes(a: tuple[int, ...], b: tuple[int, ...], *, b_is_net: bool) -> Iterator[LayoutChange]:
    """Yield what ports do to stored arrays of these sizes, the plainest first."""
    if [n for n in a if n > 1] == [n for n in b if n > 1] or (a[:1] == b[:1] and 2 in {len(a), len(b)}):
        yield LayoutChange(shape=b)
    seen = set()
    for given, made in layouts_of(a, b, b_is_net=b_is_net):
        axes = axes_between(given.letters, made.letters)
        if tuple(given.sizes[i] for i in axes) != made.sizes:
            continue
        for letters in ("", *_reversals(made)):
            places = tuple(map(made.letters.index, letters))
            effect = given.sizes, axes, places
            if effect not in seen:  # two pairs of layouts may do the same to an array
                seen.add(effect)
                yield LayoutChange(
                    split=given.sizes,
                    axes=None if given.letters == made.letters else axes,
                    orders=tuple((axis, reversed_order(made.sizes[axis])) for axis in places),
                    shape=b,
                    letters=given.letters,
                )


def _reversals(made: Layout) -> Iterator[str]:
    """Yield the axes of filters that ports reverse, by their letters."""
    if made.letters in FILTERS:
        sizes = dict(zip(made.letters, made.sizes, strict=True))
        if sizes["I"] == 3:
            yield "I"
        if sizes.get("H", 1) > 1 and sizes["W"] > 1:
            yield "HW"
