"""Order of items and their share among ranks."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from netweave.errors import UsageError
from netweave.training.settings import require

# An epoch is one way through all records. What is shuffled is drawn from the seed and the number of the
# epoch, what a transform draws for a record from the seed and the record's place in the whole run; nothing
# is remembered from batch to batch.

LAST = ("wrap", "pad", "discard", "short")
"""What may happen to records at the end of an epoch that make no whole batch."""

SHUFFLE, SKIP, TRANSFORM = range(3)
"""Streams of random numbers; a generator is seeded by the seed, the stream, and a place in it."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The records of one batch.

    Attributes:
        number: The batch, from 0 over all epochs.
        epoch: The epoch that it begins in, from 0.
        records: Indices of its records in the source.
        first: Place of its first record among all records of the run.
        padding: How many records at its end are only there to fill it.
        offset: Place of its first record in the whole batch, of which it may be a share.
    """

    number: int
    epoch: int
    records: np.ndarray
    first: int
    padding: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order in which records are taken.

    Attributes:
        num_records: Records in the source, >= 1; None where they have no end, or none that is known.
        batch_size: Records in a batch, >= 1.
        shuffle: Whether each epoch has an order of its own.
        seed: Of everything that is drawn.
        groups: Numbers of records of the parts (files) that are kept together when shuffling: the parts
            are shuffled, and the records of each; empty for one part.
        skip: Fewer records than this are left out at the very beginning, drawn (Caffe's ``rand_skip``).
        last: What happens at the end of an epoch that is not a whole number of batches. ``wrap``: the
            batch goes on with the next epoch (Caffe; MXNet's ``roll_over``). ``pad``: it is filled with the
            epoch's first records (MXNet's ``pad`` and ``round_batch``). ``discard``: its records are left
            out. ``short``: it is shorter (Minerva).

    Raises:
        ValueError: An attribute is out of its range.
    """

    num_records: int | None
    batch_size: int
    shuffle: bool = False
    seed: int = 0
    groups: tuple[int, ...] = ()
    skip: int = 0
    last: str = "wrap"

    def __post_init__(self) -> None:
        require(self.batch_size >= 1, f"the batch size is {self.batch_size}, expected at least 1")
        require(self.last in LAST, f"the last batch is {self.last!r}, expected {', '.join(LAST)}")
        if self.num_records is None:
            require(not self.shuffle, "what has no known end cannot be shuffled")
            require(self.last == "wrap", f"the last batch is {self.last!r} where there is no known end")
            return
        enough = self.num_records >= (self.batch_size if self.last in {"pad", "discard"} else 1)
        require(enough, f"there are {self.num_records} records, fewer than the {self.batch_size} of a batch")

    @property
    def batches_per_epoch(self) -> float | None:
        """Batches in one epoch; not whole where a batch may go on with the next epoch."""
        if self.num_records is None:
            return None
        whole, rest = divmod(self.num_records, self.batch_size)
        if self.last == "wrap":
            return self.num_records / self.batch_size
        return whole + (1 if rest and self.last != "discard" else 0)

    def plan(self, number: int) -> BatchPlan:
        """Return what a batch is made of."""
        if self.last == "wrap":
            return self._wrapped(number)
        epoch, batch = divmod(number, int(self.batches_per_epoch or 1))
        order = self.epoch(epoch)
        start = batch * self.batch_size
        records = order[start : start + self.batch_size]
        missing = self.batch_size - len(records) if self.last == "pad" else 0
        first = number * self.batch_size
        return BatchPlan(number, epoch, np.append(records, order[:missing]), first, missing)

    def generator(self, place: int) -> np.random.Generator:
        """Return where transforms draw from for the record at a place of the run."""
        return np.random.default_rng([self.seed, TRANSFORM, place])

    def epoch(self, epoch: int) -> np.ndarray:
        """Return the indices of all records in the order of an epoch."""
        return _epoch(self.num_records or 0, self.groups, self.seed if self.shuffle else None, epoch)

    def _wrapped(self, number: int) -> BatchPlan:
        first = number * self.batch_size + self._skipped()
        if self.num_records is None:
            return BatchPlan(number, 0, np.arange(first, first + self.batch_size), first)
        epoch, start = divmod(first, self.num_records)
        parts, missing, at = [], self.batch_size, epoch
        while missing:
            parts.append(self.epoch(at)[start : start + missing])
            missing -= len(parts[-1])
            start, at = 0, at + 1
        return BatchPlan(number, epoch, np.concatenate(parts), first)

    def _skipped(self) -> int:
        return int(np.random.default_rng([self.seed, SKIP]).integers(self.skip)) if self.skip else 0


@functools.lru_cache(maxsize=8)
def _epoch(num_records: int, groups: tuple[int, ...], seed: int | None, epoch: int) -> np.ndarray:
    if seed is None:
        return np.arange(num_records) if epoch == 0 else _epoch(num_records, groups, None, 0)
    generator = np.random.default_rng([seed, SHUFFLE, epoch])
    if len(groups) < 2:
        return generator.permutation(num_records)
    starts = np.cumsum([0, *groups[:-1]])
    return np.concatenate(
        [starts[group] + generator.permutation(groups[group]) for group in generator.permutation(len(groups))]
    )


# Every rank knows the whole plan; together the shares hold each record of a batch once, in its place,
# whatever the number of ranks. What a checkpoint keeps is the number of the whole batch, so a run can go on
# with another number of ranks.


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

    order: Order | BatchTurns
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
class Shards:
    """Shards of every batch that one rank takes, one after another.

    Attributes:
        first: The first one.
        count: How many.
        size: Number of shards of a batch, whoever takes them.
    """

    first: int
    count: int
    size: int

    @property
    def numbers(self) -> range:
        """Numbers of these shards."""
        return range(self.first, self.first + self.count)

    def whole_number(self, number: int) -> int:
        """Return how many whole batches so many shards of this rank belong to."""
        return number // self.count

    def own_number(self, whole: int) -> int:
        """Return how many shards this rank takes of so many whole batches."""
        return whole * self.count


@dataclass(frozen=True, slots=True)
class BatchShards:
    """The shards of the batches of an order that one rank takes.

    Attributes:
        order: The order of the whole batches.
        shards: Which.
        place: Where the records are from, for messages.

    Raises:
        UsageError: Shards would differ in size.
    """

    order: Order
    shards: Shards
    place: str = ""

    def __post_init__(self) -> None:
        sizes = [self.order.batch_size]
        if self.order.last == "short" and self.order.num_records is not None:
            sizes.append(self.order.num_records % self.order.batch_size)
        for size in sizes:
            if size % self.shards.size:
                which = "a batch" if size == sizes[0] else "the last batch of an epoch"
                raise UsageError(
                    f"{self.place}: {which} has {size} records, which are not {self.shards.size} shards of "
                    f"equal size; take a batch size that is divisible by {self.shards.size}, or other shards"
                )

    @property
    def batch_size(self) -> int:
        """Records in a shard."""
        return self.order.batch_size // self.shards.size

    @property
    def batches_per_epoch(self) -> float | None:
        """Whole batches in one epoch."""
        return self.order.batches_per_epoch

    def plan(self, number: int) -> BatchPlan:
        """Return what this rank's shard of a number is made of."""
        whole, own = divmod(number, self.shards.count)
        shard = BatchShare(self.order, self.shards.first + own, self.shards.size, self.place).plan(whole)
        return replace(shard, number=number)

    def generator(self, place: int) -> np.random.Generator:
        """Return where transforms draw from for the record at a place of the run."""
        return self.order.generator(place)


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
    def num_records(self) -> int | None:
        """Records of an epoch; None where they have no end."""
        return self.order.num_records

    @property
    def last(self) -> str:
        """The way in which the last batch of an epoch is made."""
        return self.order.last

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
