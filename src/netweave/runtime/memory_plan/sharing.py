"""Co-sharing: a place in one block of memory for each buffer, so that no two that are alive share a byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.runtime.memory_plan.lifetimes import Buffer

ALIGNMENT = 64
"""Places are multiples of this many bytes: a cache line, and what vector instructions want."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Offsets of the buffers.

    Attributes:
        offsets: The first byte of each buffer, in the order given.
        num_bytes: Size of the block.
    """

    offsets: tuple[int, ...]
    num_bytes: int


def share(buffers: Sequence[Buffer]) -> Sharing:
    """Return places for buffers: one after the other, each into the tightest gap that is free all its life.

    MXNet gives out freed blocks while it walks the net (nnvm's ``PlanMemory``), so that a block is as
    large as the largest buffer that was ever in it. Placing in another order than that of time needs the
    whole schedule beforehand, which is known here, and comes closer to the bound (Pisarchyk and Lee 2020).
    No order is the best for all nets: the largest first is for most, the longest alive first for AlexNet.

    >>> from netweave.runtime.memory_plan.lifetimes import Buffer
    >>> a, b, c = (Buffer(n, "value", 64, i, i + 1) for i, n in enumerate("abc"))
    >>> share([a, b, c])
    Sharing(offsets=(0, 64, 0), num_bytes=128)
    """
    found = Sharing((), 0)
    if buffers:
        lives = _Lives.of(buffers)
        for keys in lives.orders():
            one = lives.placed(np.lexsort(keys))
            found = min(found, one, key=lambda each: each.num_bytes) if found.offsets else one
            if found.num_bytes == lives.bound:
                break
    return found


@dataclass(frozen=True, slots=True)
class _Lives:
    """Sizes of buffers, and the first and last steps of their lives, by number of the buffer.

    Attributes:
        around: The most bytes alive at once while each is alive.
        bound: The most bytes alive at once: no placing needs less.
    """

    sizes: np.ndarray
    first: np.ndarray
    last: np.ndarray
    around: np.ndarray
    bound: int

    @classmethod
    def of(cls, buffers: Sequence[Buffer]) -> _Lives:
        sizes = np.array([_aligned(buffer.num_bytes) for buffer in buffers], np.int64)
        first = np.array([buffer.first for buffer in buffers], np.int64)
        last = np.array([buffer.last for buffer in buffers], np.int64)
        changes = np.zeros(int(last.max()) + 2, np.int64)
        np.add.at(changes, first, sizes)
        np.subtract.at(changes, last + 1, sizes)
        live = np.cumsum(changes)
        around = np.array([live[a : b + 1].max() for a, b in zip(first, last, strict=True)], np.int64)
        return cls(sizes, first, last, around, int(live.max()))

    def orders(self) -> Iterator[tuple[np.ndarray, ...]]:
        """Yield orders to place in, as keys for ``np.lexsort``: the last key counts most."""
        life = self.last - self.first + 1
        yield self.first, -self.sizes
        yield self.first, -self.sizes, -self.around
        yield self.first, -self.sizes, -life
        yield self.first, -self.sizes * life

    def placed(self, order: np.ndarray) -> Sharing:
        """Return places for the buffers, given in an order."""
        offsets = np.zeros(len(self.sizes), np.int64)
        placed = np.zeros(len(self.sizes), bool)
        for index in order:
            alive = placed & (self.first <= self.last[index]) & (self.last >= self.first[index])
            begins, ends = offsets[alive], (offsets + self.sizes)[alive]
            offsets[index] = _tightest(begins, ends, int(self.sizes[index]))
            placed[index] = True
        return Sharing(tuple(offsets.tolist()), int((offsets + self.sizes).max()))


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
