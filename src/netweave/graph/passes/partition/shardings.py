"""Shardings of values among workers: the rows and channels that each of them holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

Range = tuple[int, int]
"""The first number, and the one after the last."""

Ranges = tuple[Range, ...]


def shares(count: int, num_workers: int) -> Ranges:
    """Return the share of each worker of so many; lower ones have the larger shares, as of a batch.

    >>> shares(10, 3)
    ((0, 4), (4, 7), (7, 10))
    """
    each, rest = divmod(count, num_workers)
    stops = list(accumulate(each + (worker < rest) for worker in range(num_workers)))
    return tuple(zip([0, *stops], stops, strict=False))


@dataclass(frozen=True, slots=True)
class Sharding:
    """The way in which a value is cut.

    Attributes:
        kind: ``constant`` (the same on all workers, and not computed from the batch), ``batch``, ``feature``,
            ``worker`` (all of it on one), or ``whole`` (all of it on each).
        channels: The channels of each worker, where cut by feature.
        worker: The one worker that has it.
    """

    kind: str
    channels: tuple[Ranges, ...] = ()
    worker: int = 0

    def __str__(self) -> str:
        return f"worker {self.worker}" if self.kind == "worker" else self.kind


CONSTANT, BATCH, WHOLE = Sharding("constant"), Sharding("batch"), Sharding("whole")


def on_worker(worker: int) -> Sharding:
    """Return the sharding of what one worker has alone."""
    return Sharding("worker", worker=worker)


def by_feature(channels: Sequence[Ranges]) -> Sharding:
    """Return the sharding of channels that are cut."""
    return Sharding("feature", tuple(channels))


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows and channels that one worker sends to another, and where they go.

    Attributes:
        rows: Number of rows.
        channels: Number of channels.
        source: First row and channel in the part of the sender.
        target: First row and channel in the part of the receiver.
    """

    rows: int
    channels: int
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Boxes:
    """The part of one value that each worker holds.

    Attributes:
        rows: Rows of each worker.
        channels: Channels of each worker, in the order in which it has them.
    """

    rows: Ranges
    channels: tuple[Ranges, ...]

    @staticmethod
    def of(sharding: Sharding, num_rows: int, num_channels: int, num_workers: int) -> Boxes:
        """Return the boxes of a value of so many rows and channels."""
        every, none = (0, num_rows), (0, 0)
        all_channels: tuple[Ranges, ...] = (((0, num_channels),),) * num_workers
        if sharding.kind == "batch":
            return Boxes(shares(num_rows, num_workers), all_channels)
        if sharding.kind == "feature":
            return Boxes((every,) * num_workers, sharding.channels)
        if sharding.kind == "worker":
            workers = range(num_workers)
            return Boxes(tuple(every if w == sharding.worker else none for w in workers), all_channels)
        return Boxes((every,) * num_workers, all_channels)

    def num_rows(self, worker: int) -> int:
        """Return how many rows a worker has."""
        start, stop = self.rows[worker]
        return stop - start

    def num_channels(self, worker: int) -> int:
        """Return how many channels a worker has."""
        return length(self.channels[worker])

    def pieces(self, sender: int, target: Boxes, receiver: int) -> Iterator[Piece]:
        """Yield what one worker, which has these boxes, sends to another, which is to have others."""
        (first, last), (begin, end) = self.rows[sender], target.rows[receiver]
        start, stop = max(first, begin), min(last, end)
        if start >= stop:
            return
        place = 0
        for low, high in target.channels[receiver]:
            own = 0
            for a, b in self.channels[sender]:
                lower, upper = max(low, a), min(high, b)
                if lower < upper:
                    source, to = (start - first, own + lower - a), (start - begin, place + lower - low)
                    yield Piece(stop - start, upper - lower, source, to)
                own += b - a
            place += high - low

    def moved(self, target: Boxes) -> int:
        """Return how many rows times channels go from one worker to another."""
        workers = range(len(self.rows))
        return sum(
            piece.rows * piece.channels
            for sender in workers
            for receiver in workers
            if sender != receiver
            for piece in self.pieces(sender, target, receiver)
        )

    def to_text(self) -> str:
        """Return the boxes as an attribute has them."""
        return json.dumps({"rows": self.rows, "channels": self.channels})

    @staticmethod
    def from_text(text: str) -> Boxes:
        """Return the boxes that ``to_text`` was called on."""
        content = json.loads(text)
        channels = tuple(tuple((a, b) for a, b in ranges) for ranges in content["channels"])
        return Boxes(tuple((a, b) for a, b in content["rows"]), channels)


def length(ranges: Ranges) -> int:
    """Return how many numbers some ranges have."""
    return sum(stop - start for start, stop in ranges)


def joined(ranges: Sequence[Range]) -> Ranges:
    """Return ranges without those that are empty; one that begins where another ends continues it.

    >>> joined([(0, 2), (2, 5), (5, 5), (7, 8)])
    ((0, 5), (7, 8))
    """
    result: list[Range] = []
    for start, stop in ranges:
        if result and result[-1][1] == start:
            result[-1] = (result[-1][0], stop)
        elif stop > start:
            result.append((start, stop))
    return tuple(result)


CONNECTIONS = {
    ("batch", "whole"): "Gather",
    ("feature", "whole"): "Gather",
    ("worker", "whole"): "Broadcast",
    ("worker", "batch"): "Slice",
    ("worker", "feature"): "Slice",
    ("batch", "worker"): "Gather",
    ("feature", "worker"): "Gather",
    ("worker", "worker"): "Bridge",
    ("batch", "feature"): "Regroup",
    ("feature", "batch"): "Regroup",
    ("feature", "feature"): "Regroup",
}
"""The connection operators, by the kinds of sharding before and behind them (SINGA's connection layers)."""
