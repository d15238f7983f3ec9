"""Co-sharing: a place in one block of memory for each buffer, so that no two that are alive share a byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.memory_plan.lifetimes import Buffer

ALIGNMENT = 64
"""Places are multiples of this many bytes: a cache line, and what vector instructions want."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Where each buffer lies.

    Attributes:
        offsets: The first byte of each buffer, in the order given.
        num_bytes: Size of the block.
    """

    offsets: tuple[int, ...]
    num_bytes: int


def share(buffers: Sequence[Buffer]) -> Sharing:
    """Return places for buffers: the largest first, each into the tightest gap that is free all its life.

    MXNet gives out freed blocks while it walks the net (nnvm's ``PlanMemory``), so that a block is as
    large as the largest buffer that was ever in it. Placing by size needs the whole schedule beforehand,
    which is known here, and comes closer to the bound (Pisarchyk and Lee 2020, "greedy by size").

    >>> from netweave.memory_plan.lifetimes import Buffer
    >>> a, b, c = (Buffer(n, "value", 64, i, i + 1) for i, n in enumerate("abc"))
    >>> share([a, b, c])
    Sharing(offsets=(0, 64, 0), num_bytes=128)
    """
    count = len(buffers)
    first = np.array([buffer.first for buffer in buffers], np.int64)
    last = np.array([buffer.last for buffer in buffers], np.int64)
    sizes = np.array([_aligned(buffer.num_bytes) for buffer in buffers], np.int64)
    offsets = np.zeros(count, np.int64)
    placed = np.zeros(count, bool)
    for index in sorted(range(count), key=lambda i: (-sizes[i], first[i])):
        alive = placed & (first <= last[index]) & (last >= first[index])
        begins, ends = offsets[alive], offsets[alive] + sizes[alive]
        offsets[index] = _tightest(begins, ends, int(sizes[index]))
        placed[index] = True
    return Sharing(tuple(offsets.tolist()), int((offsets + sizes).max(initial=0)))


def _tightest(begins: np.ndarray, ends: np.ndarray, size: int) -> int:
    """Return the begin of the smallest gap that holds a size; behind all if there is none."""
    best, place, top = None, 0, 0
    for begin, end in sorted(zip(begins.tolist(), ends.tolist(), strict=True)):
        gap = begin - top
        if gap >= size and (best is None or gap < best):
            best, place = gap, top
        top = max(top, end)
    return place if best is not None else top


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT
