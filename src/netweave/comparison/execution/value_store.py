"""The store of the values of all runs of a comparison, within a limit (decision 0186)."""

from __future__ import annotations

import itertools
import weakref
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import numpy as np

    from netweave.comparison.execution.memory_budget import MemoryBudget

SLICE_SHARE = 4
"""A net is computed in slices of at most this part of the limit, so that A's, B's and what is made of them
fit together."""


@dataclass(slots=True)
class _Run:
    """The values kept of one run.

    Attributes:
        last_readers: By slice of the net, the last slice that reads one of its values.
        position: The slice that was looked at last.
        is_ahead: Whether slices are looked at ahead of it, which do not move it.
        slices: Values by slice and name, but for those that later slices read.
        boundary: Values that later slices read, likewise.
    """

    last_readers: Sequence[int]
    position: int = 0
    is_ahead: bool = False
    slices: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    boundary: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)

    def move(self, index: int) -> None:
        """Note that a slice is looked at."""
        if not self.is_ahead:
            self.position = index

    def rank(self, index: int, *, of_boundary: bool) -> tuple[bool, float, bool]:
        """Return what orders the tensors of slices, those that make room first in front.

        Passes go through a net in its order: the slice farthest ahead, round the end, is looked at last.
        """
        is_read_next = of_boundary and index <= self.position <= self.last_readers[index]
        ahead = (index - self.position) % len(self.last_readers)
        return index == self.position or is_read_next, -ahead / len(self.last_readers), of_boundary


class ValueStore:
    """Tensors of several runs within one limit; what is looked at again last makes room for others.

    The slices that are looked at now, one of each run, go last: the values of A and B are asked for in turns,
    and would make room for each other at every look-up. So do the values that slices from there on read: what
    follows can be computed again from them, and not from the inputs of the net.

    Args:
        budget: What the comparison may take; None for any amount.
        clock: Takes the times of running nets.

    Attributes:
        budget: What the comparison may take.
        clock: Takes the times of running nets.
        num_bytes: What is held now.
        peak_bytes: The most that was held or reserved at once.
    """

    def __init__(self, budget: MemoryBudget | None = None, clock: Stopwatch | None = None) -> None:
        self.budget = budget
        self.clock = clock or Stopwatch()
        self.max_bytes = None if budget is None else budget.value_bytes
        self.num_bytes = 0
        self.peak_bytes = 0
        self._runs: dict[int, _Run] = {}
        self._numbers = itertools.count()

    @property
    def share_bytes(self) -> int | None:
        """Most bytes of one slice of a net, and of what is made of its values at once."""
        return None if self.max_bytes is None else max(self.max_bytes // SLICE_SHARE, 1)

    def register(self, run: object, last_readers: Sequence[int]) -> int:
        """Return a number for a run; what is held of it goes when the run is dropped.

        Args:
            run: The run.
            last_readers: By slice of its net, the last slice that reads one of its values.
        """
        number = next(self._numbers)
        self._runs[number] = _Run(last_readers)
        weakref.finalize(run, self._forget, number)
        return number

    @contextmanager
    def looking_ahead(self, run: int) -> Iterator[None]:
        """Let slices of a run be looked at while those that were looked at before are still needed first."""
        of_run = self._runs[run]
        of_run.is_ahead = True
        try:
            yield
        finally:
            of_run.is_ahead = False

    def holds(self, run: int, index: int, name: str) -> bool:
        """Return whether a tensor of a slice of a run is held."""
        of_run = self._runs[run]
        return any(name in held.get(index, ()) for held in (of_run.slices, of_run.boundary))

    def get(self, run: int, index: int, name: str) -> np.ndarray | None:
        """Return a tensor of a slice of a run; None if it is not held."""
        of_run = self._runs[run]
        of_run.move(index)
        for held in (of_run.slices, of_run.boundary):
            if name in held.get(index, ()):
                return held[index][name]
        return None

    def put(self, run: int, index: int, tensors: Mapping[str, np.ndarray], boundary: frozenset[str]) -> None:
        """Hold what a slice of a run computed; others make room for it.

        Args:
            run: The number of the run.
            index: The slice.
            tensors: Its tensors by signal.
            boundary: Which of them later slices read.
        """
        of_run = self._runs[run]
        for held in (of_run.slices, of_run.boundary):
            self.num_bytes -= _size(held.pop(index, {}))
        self.reserve(run, index, _size(tensors))
        of_run.slices[index] = {name: x for name, x in tensors.items() if name not in boundary}
        of_run.boundary[index] = {name: x for name, x in tensors.items() if name in boundary}
        self.num_bytes += _size(tensors)

    def reserve(self, run: int, index: int, num_bytes: int) -> None:
        """Drop tensors until a slice of a run fits besides, as far as there are any that may go.

        Args:
            run: The number of the run.
            index: The slice, which is looked at from now on.
            num_bytes: What its tensors take.
        """
        self._runs[run].move(index)
        while self.max_bytes is not None and self.num_bytes + num_bytes > self.max_bytes and self._drop():
            pass
        self.peak_bytes = max(self.peak_bytes, self.num_bytes + num_bytes)

    def _drop(self) -> bool:
        """Drop what is looked at again last; say if there was anything."""
        held = [
            (run.rank(index, of_boundary=of_boundary), tensors, index)
            for run in self._runs.values()
            for tensors, of_boundary in ((run.slices, False), (run.boundary, True))
            for index in tensors
        ]
        if not held:
            return False
        _, tensors, index = min(held, key=lambda row: row[0])
        self.num_bytes -= _size(tensors.pop(index))
        return True

    def _forget(self, run: int) -> None:
        dropped = self._runs.pop(run)
        self.num_bytes -= sum(map(_size, (*dropped.slices.values(), *dropped.boundary.values())))


def _size(tensors: Mapping[str, np.ndarray]) -> int:
    return sum(x.nbytes for x in tensors.values())
