"""The share of a rank in each batch, when several ranks work on the batches of one order.

Every rank knows the whole plan; together the shares hold each record of a batch once, in its place, whatever
the number of ranks. What a checkpoint keeps is the number of the whole batch, so a run can go on with another
number of ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from netweave.training.data.order import BatchPlan, Order


def share_bounds(count: int, rank: int, size: int) -> tuple[int, int]:
    """Return the first record of a rank's share of so many, and the one after its last.

    Shares differ by one record at most; lower ranks have the larger ones.

    >>> [share_bounds(8, rank, 3) for rank in range(3)]
    [(0, 3), (3, 6), (6, 8)]
    """
    each, rest = divmod(count, size)
    start = rank * each + min(rank, rest)
    return start, start + each + (rank < rest)


@dataclass(frozen=True, slots=True)
class BatchShare:
    """The part of every batch that one rank takes.

    Attributes:
        order: The order of the whole batches.
        rank: The rank.
        size: Number of ranks.
        place: Where the records are from, for messages.

    Raises:
        UsageError: A batch has fewer records than there are ranks.
    """

    order: Order
    rank: int
    size: int
    place: str = ""

    def __post_init__(self) -> None:
        smallest = self.order.batch_size
        if self.order.last == "short" and self.order.num_records is not None:
            smallest = self.order.num_records % smallest or smallest
        if smallest < self.size:
            prefix = f"{self.place}: " if self.place else ""
            which = "the last batch of an epoch" if smallest < self.order.batch_size else "a batch"
            raise UsageError(
                f"{prefix}{which} has {smallest} records, too few for {self.size} ranks; take {smallest} "
                "ranks or fewer, or a larger batch"
            )

    @property
    def batch_size(self) -> int:
        """Most records in a share."""
        start, stop = share_bounds(self.order.batch_size, self.rank, self.size)
        return stop - start

    @property
    def batches_per_epoch(self) -> float | None:
        """Batches in one epoch."""
        return self.order.batches_per_epoch

    def plan(self, number: int) -> BatchPlan:
        """Return what this rank's share of a batch is made of."""
        whole = self.order.plan(number)
        start, stop = share_bounds(len(whole.records), self.rank, self.size)
        real = len(whole.records) - whole.padding
        return replace(
            whole,
            records=whole.records[start:stop],
            first=whole.first + start,
            padding=max(0, stop - max(start, real)),
            offset=start,
        )

    def generator(self, place: int) -> np.random.Generator:
        """Return where transforms draw from for the record at a place of the run."""
        return self.order.generator(place)


@dataclass(frozen=True, slots=True)
class Turns:
    """Ranks take turns at the batches of a pass: rank r takes the batches r, r + size, ...

    Attributes:
        rank: The rank.
        size: Number of ranks, at most ``num_batches``.
        num_batches: Batches in one pass of all ranks together.
    """

    rank: int
    size: int
    num_batches: int

    @property
    def per_pass(self) -> int:
        """Batches of this rank in one pass."""
        return len(range(self.rank, self.num_batches, self.size))

    def number_in_order(self, number: int) -> int:
        """Return the place of this rank's batch in the order of all ranks' batches."""
        passes, own = divmod(number, self.per_pass)
        return passes * self.num_batches + own * self.size + self.rank

    def whole_number(self, number: int) -> int:
        """Return how many batches all ranks have taken when this one has taken so many, in whole passes."""
        return number // self.per_pass * self.num_batches

    def own_number(self, whole: int) -> int:
        """Return how many batches this rank has taken when all ranks have taken so many, in whole passes."""
        return whole // self.num_batches * self.per_pass


@dataclass(frozen=True, slots=True)
class BatchTurns:
    """The batches of an order that are this rank's turn.

    Attributes:
        order: The order of all batches.
        turns: Whose turn it is.
    """

    order: Order
    turns: Turns

    @property
    def batch_size(self) -> int:
        """Records in a batch."""
        return self.order.batch_size

    @property
    def batches_per_epoch(self) -> float | None:
        """Batches in one epoch of all ranks."""
        return self.order.batches_per_epoch

    def plan(self, number: int) -> BatchPlan:
        """Return what this rank's batch of a number is made of."""
        return self.order.plan(self.turns.number_in_order(number))

    def generator(self, place: int) -> np.random.Generator:
        """Return where transforms draw from for the record at a place of the run."""
        return self.order.generator(place)
