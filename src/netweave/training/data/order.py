"""The order of records: a pure function of the batch's number, so that any run can be resumed.

An epoch is one way through all records. What is shuffled is drawn from the seed and the number of the
epoch, what a transform draws for a record from the seed and the record's place in the whole run; nothing
is remembered from batch to batch.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from netweave.training.settings import require

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
