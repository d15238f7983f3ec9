"""Picks what is shown of the values of each group: the worst channel as a map, and how the values spread."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.layout.tensors import candidate_layouts
from netweave.comparison.result.comparison import Group, Status
from netweave.comparison.result.tensor_values import TensorValues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft

MAP_SIDE = 32
"""Rows and columns of a map: of a larger channel, blocks are shown."""

BINS = 24
"""Parts of the range in which values are counted."""

MAX_GROUPS = 400
"""Groups whose values are kept; of more, those that differ come first."""

MAX_COUNTED = 1_000_000
"""Elements that are counted, evenly picked from a larger tensor."""

ORDER = (
    Status.DIFFERENT,
    Status.LATENT,
    Status.UNKNOWN,
    Status.PROPAGATED,
    Status.MAPPED,
    Status.STRUCTURE,
    Status.EQUAL,
)


def with_values(alignment: Alignment, drafts: Sequence[Draft], groups: Sequence[Group]) -> list[Group]:
    """Return groups with the values of their outputs.

    Args:
        alignment: Both nets, run.
        drafts: The drafts of the groups, in the same order.
        groups: The groups, judged.
    """
    order = sorted(range(len(groups)), key=lambda number: _rank(groups[number]))
    shown = list(groups)
    for number in order[:MAX_GROUPS]:
        values = _group_values(alignment, drafts[number])
        if values is not None:
            shown[number] = replace(groups[number], values=values)
    return shown


def _rank(group: Group) -> int:
    return ORDER.index(group.status) if group.status in ORDER else len(ORDER)


def _group_values(alignment: Alignment, draft: Draft) -> TensorValues | None:
    """Return the values of a group's output that differs most; None where a net has no such tensor."""
    found = [
        values
        for name_a, name_b in draft.outputs
        if (values := _of_pair(alignment, name_a, name_b)) is not None
    ]
    return max(found, key=lambda values: max(values.channel_errors, default=0.0), default=None)


def _of_pair(alignment: Alignment, name_a: str, name_b: str) -> TensorValues | None:
    a, b = alignment.a.tensors.get(name_a), alignment.b.tensors.get(name_b)
    if a is None or b is None:
        return None
    pair = alignment.a.pairs.get(name_a)
    change = pair.change if pair is not None and pair.b == name_b else None
    if change is None:  # what differs in values has no proven layout: the one that most of the net has
        layouts = candidate_layouts(a.shape, b.shape, orientation=alignment.orientation)
        change = max(layouts, key=alignment.num_votes, default=None)
    if change is None:
        return None
    return tensor_values(change.apply(a), b, name_a=name_a, name_b=name_b)


def tensor_values(a: np.ndarray, b: np.ndarray, *, name_a: str, name_b: str) -> TensorValues | None:
    """Return what is shown of a tensor; None if the shapes differ or nothing is in it.

    Args:
        a: A's tensor in B's layout, batch first.
        b: B's tensor.
        name_a: Its name in A.
        name_b: Its name in B.

    >>> x = np.zeros((1, 2, 2, 2), np.float32)
    >>> y = x.copy()
    >>> y[0, 1, 0, 1] = 3
    >>> values = tensor_values(x + 1, y + 1, name_a="conv", name_b="conv")
    >>> values.place, values.value_b, values.channel_errors
    ((0, 1, 0, 1), 4.0, (0.0, 3.0))
    """
    if a.shape != b.shape or not a.size or a.dtype.kind not in "fiub" or b.dtype.kind not in "fiub":
        return None
    x, y = _canonical(a), _canonical(b)
    difference = _difference(x, y)
    finite = np.where(np.isfinite(x), x, 0)
    rms = np.sqrt(np.einsum("nchw,nchw->n", finite, finite, dtype=np.float64) / (finite[0].size))
    errors = difference.max(axis=(2, 3)) / np.maximum(rms, 1e-37)[:, None]
    errors[difference.max(axis=(2, 3)) == 0] = 0.0
    sample, channel = np.unravel_index(int(errors.argmax()), errors.shape)
    inside = difference[sample, channel]
    row, column = np.unravel_index(int(inside.argmax()), inside.shape)
    block, chosen = _blocks(inside)
    index = int(np.ravel_multi_index((sample, channel, row, column), x.shape))
    low, high = _range(x, y)
    return TensorValues(
        name_a=name_a,
        name_b=name_b,
        shape=a.shape,
        place=tuple(int(i) for i in np.unravel_index(index, a.shape)),
        value_a=float(x[sample, channel, row, column]),
        value_b=float(y[sample, channel, row, column]),
        rms=float(rms[sample]),
        channel_errors=tuple(float(error) for error in errors.max(axis=0)) if a.ndim > 2 else (),
        block=block,
        map_a=x[sample, channel].reshape(-1)[chosen],
        map_b=y[sample, channel].reshape(-1)[chosen],
        worst=(int(row) // block[0], int(column) // block[1]),
        low=low,
        high=high,
        counts_a=_counts(x, low, high),
        counts_b=_counts(y, low, high),
    )


def _canonical(x: np.ndarray) -> np.ndarray:
    """Return a tensor as (samples, channels, height, width); what has no channels has one."""
    if x.ndim == 0:
        shape: tuple[int, ...] = (1, 1, 1, 1)
    elif x.ndim < 3:
        shape = (x.shape[0], 1, 1, -1)
    elif x.ndim == 3:
        shape = (*x.shape[:2], 1, x.shape[2])
    else:
        shape = (*x.shape[:2], -1, x.shape[-1])
    return np.asarray(x, np.float64 if x.dtype == np.float64 else np.float32).reshape(shape)


def _difference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the size of the difference; what is finite in one alone is infinitely far apart."""
    with np.errstate(all="ignore"):
        difference: np.ndarray = np.abs(x - y)
    odd = ~np.isfinite(difference)
    if odd.any():
        same = (x == y) | (np.isnan(x) & np.isnan(y))
        difference = np.where(same, 0, np.where(odd, np.inf, difference))
    return difference


def _blocks(difference: np.ndarray) -> tuple[tuple[int, int], np.ndarray]:
    """Return the size of blocks and, of each, the flat index of the element that differs most."""
    height, width = difference.shape
    tall, wide = -(-height // MAP_SIDE), -(-width // MAP_SIDE)
    rows, columns = -(-height // tall), -(-width // wide)
    padded = np.full((rows * tall, columns * wide), -1.0)
    padded[:height, :width] = difference
    blocks = padded.reshape(rows, tall, columns, wide).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    down, across = np.divmod(blocks.argmax(axis=2), wide)
    chosen = (np.arange(rows)[:, None] * tall + down) * width + np.arange(columns) * wide + across
    return (tall, wide), chosen


def _range(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    finite = [part[np.isfinite(part)] for part in (x, y)]
    known = [part for part in finite if part.size]
    if not known:
        return 0.0, 0.0
    return float(min(part.min() for part in known)), float(max(part.max() for part in known))


def _counts(x: np.ndarray, low: float, high: float) -> tuple[int, ...]:
    flat = x.reshape(-1)[:: max(1, x.size // MAX_COUNTED)]
    flat = flat[np.isfinite(flat)]
    if high <= low:
        return (0,) * (BINS // 2) + (int(flat.size),) + (0,) * (BINS - BINS // 2 - 1)
    bins = np.minimum((flat - low) / (high - low) * BINS, BINS - 1).astype(np.intp)
    return tuple(int(count) for count in np.bincount(bins, minlength=BINS))
