"""Records of a store elsewhere, asked for some batches before they are decoded, on a lane of their own.

A ring of entries, each with the raw records of one batch and a variable: fetching writes it, the tasks that
decode read it. So an entry is only filled again when its batch is decoded, and what waits for the network
never holds up a thread that decodes.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

from netweave.runtime.engine import Variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.runtime.engine import Engine
    from netweave.training.data.order import BatchPlan
    from netweave.training.data.source import Source

MAX_BATCHES = 8
"""Batches on their way at most, besides those being decoded: a store that takes 20 ms to answer then keeps up
with a step of 3 ms."""

MAX_BYTES = 64 << 20
"""About so many bytes are on their way at most, whatever the size of records; but always one batch."""

LANE = "fetch"


class FetchAhead:
    """Raw records of the next batches.

    Args:
        source: Where they come from.
        engine: Where they are fetched.
        batch_bytes: About the size of a batch.
        decoded: Batches that are decoded ahead of the one that is given.
    """

    def __init__(self, source: Source, engine: Engine, *, batch_bytes: int, decoded: int) -> None:
        self._source = source
        self._engine = engine
        self.ahead = max(1, min(MAX_BATCHES, MAX_BYTES // max(1, batch_bytes)))
        # one more than can be on its way: the tasks that read an entry are pushed before it is written again
        self._entries = [_Entry(number) for number in range(decoded + 1 + self.ahead)]
        engine.add_lane(LANE, decoded + self.ahead)  # all that may be on its way; they only wait

    def push(self, number: int, plan: BatchPlan) -> None:
        """Begin to fetch the records of a batch, the loader's of this number."""
        entry = self._of(number)
        self._engine.push(
            functools.partial(self._fetch, entry, plan),
            writes=[entry.variable],
            lane=LANE,
            name=f"fetch batch {number}",
        )

    def variable(self, number: int) -> Variable:
        """Return what a task that decodes a batch must name."""
        return self._of(number).variable

    def records(self, number: int, piece: slice) -> Sequence[Any]:
        """Return the raw records of a piece of a batch, in a task that names its variable."""
        return self._of(number).records[piece]

    def wait(self, number: int) -> None:
        """Wait for a batch; raise its error, after which the entry can be used again."""
        self._engine.wait_for(self._of(number).variable)

    def drain(self) -> None:
        """Wait for all that is on its way, and forget it and its errors."""
        for number in range(len(self._entries)):
            with contextlib.suppress(Exception):
                self.wait(number)

    def _of(self, number: int) -> _Entry:
        return self._entries[number % len(self._entries)]

    def _fetch(self, entry: _Entry, plan: BatchPlan) -> None:
        entry.records = ()  # so that no more batches are in memory than have entries
        entry.records = self._source.fetch(plan.records.tolist())


def size_of(raw: Any) -> int:
    """Return the bytes of what a source has fetched of a record.

    >>> size_of((b"image", b"7")), size_of(None)
    (6, 0)
    """
    if isinstance(raw, tuple | list):
        return sum(map(size_of, raw))
    return len(raw) if isinstance(raw, bytes) else int(getattr(raw, "nbytes", 0))


class _Entry:
    __slots__ = ("records", "variable")

    def __init__(self, number: int) -> None:
        self.records: Sequence[Any] = ()
        self.variable = Variable(f"fetched records {number}")
