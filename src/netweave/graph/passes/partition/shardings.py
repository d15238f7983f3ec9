"""Shardings of values among workers: the rows, channels and parts of the image that each of them holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

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
            ``image``, ``worker`` (all of it on one), or ``whole`` (all of it on each).
        channels: The channels of each worker, where cut by feature.
        worker: The one worker that has it.
        places: The rows and columns of each worker, where cut by image; those of two may overlap (halos).
    """

    kind: str
    channels: tuple[Ranges, ...] = ()
    worker: int = 0
    places: tuple[Ranges, ...] = ()

    def __str__(self) -> str:
        return f"worker {self.worker}" if self.kind == "worker" else self.kind


CONSTANT, BATCH, WHOLE = Sharding("constant"), Sharding("batch"), Sharding("whole")


def on_worker(worker: int) -> Sharding:
    """Return the sharding of what one worker has alone."""
    return Sharding("worker", worker=worker)


def by_feature(channels: Sequence[Ranges]) -> Sharding:
    """Return the sharding of channels that are cut."""
    return Sharding("feature", tuple(channels))


def by_image(places: Sequence[Ranges]) -> Sharding:
    """Return the sharding of an image that is cut: the rows and columns of each worker."""
    return Sharding("image", places=tuple(places))


def tiles(grid: tuple[int, int], sizes: tuple[int, int]) -> tuple[Ranges, ...]:
    """Return the rows and columns of each worker of a grid of workers, the first row of the grid first.

    >>> tiles((2, 2), (7, 4))
    (((0, 4), (0, 2)), ((0, 4), (2, 4)), ((4, 7), (0, 2)), ((4, 7), (2, 4)))
    """
    rows, columns = (shares(size, count) for size, count in zip(sizes, grid, strict=True))
    return tuple((row, column) for row in rows for column in columns)


@dataclass(frozen=True, slots=True)
class Piece:
    """A box of a value that one worker sends to another, and where it goes.

    Attributes:
        sizes: Numbers of rows, channels, and elements along the other axes.
        source: Its first corner in the part of the sender.
        target: Its first corner in the part of the receiver.
    """

    sizes: tuple[int, ...]
    source: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Boxes:
    """The part of one value that each worker holds.

    Attributes:
        rows: Rows of each worker.
        channels: Channels of each worker, in the order in which it has them.
        places: Elements of each worker along each axis behind the channels.
    """

    rows: Ranges
    channels: tuple[Ranges, ...]
    places: tuple[Ranges, ...]

    @staticmethod
    def of(sharding: Sharding, sizes: Sequence[int], num_workers: int) -> Boxes:
        """Return the boxes of a value of such sizes: rows, channels, and those of the other axes."""
        every, none = (0, sizes[0]), (0, 0)
        rows: Ranges = (every,) * num_workers
        channels: tuple[Ranges, ...] = (((0, sizes[1]),),) * num_workers
        places: tuple[Ranges, ...] = (tuple((0, size) for size in sizes[2:]),) * num_workers
        if sharding.kind == "batch":
            rows = shares(sizes[0], num_workers)
        elif sharding.kind == "feature":
            channels = sharding.channels
        elif sharding.kind == "image":
            places = sharding.places
        elif sharding.kind == "worker":
            rows = tuple(every if worker == sharding.worker else none for worker in range(num_workers))
        return Boxes(rows, channels, places)

    def sizes(self, worker: int) -> tuple[int, ...]:
        """Return the sizes of a worker's part: rows, channels, and those of the other axes."""
        places = (stop - start for start, stop in self.places[worker])
        start, stop = self.rows[worker]
        return (stop - start, length(self.channels[worker]), *places)

    def pieces(self, sender: int, target: Boxes, receiver: int) -> Iterator[Piece]:
        """Yield what one worker, which has these boxes, sends to another, which is to have others."""
        own = (self.rows[sender], *self.places[sender])
        wanted = (target.rows[receiver], *target.places[receiver])
        common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(own, wanted, strict=True)]
        if any(start >= stop for start, stop in common):
            return
        rows, *sizes = (stop - start for start, stop in common)
        from_row, *source = (start - a for (start, _), (a, _) in zip(common, own, strict=True))
        to_row, *to = (start - c for (start, _), (c, _) in zip(common, wanted, strict=True))
        place = 0
        for low, high in target.channels[receiver]:
            before = 0
            for a, b in self.channels[sender]:
                lower, upper = max(low, a), min(high, b)
                if lower < upper:
                    yield Piece(
                        (rows, upper - lower, *sizes),
                        (from_row, before + lower - a, *source),
                        (to_row, place + lower - low, *to),
                    )
                before += b - a
            place += high - low

    def moved(self, target: Boxes) -> int:
        """Return how many elements go from one worker to another."""
        workers = range(len(self.rows))
        return sum(
            piece.elements
            for sender in workers
            for receiver in workers
            if sender != receiver
            for piece in self.pieces(sender, target, receiver)
        )

    def to_text(self) -> str:
        """Return the boxes as an attribute has them."""
        return json.dumps({"rows": self.rows, "channels": self.channels, "places": self.places})

    @staticmethod
    def from_text(text: str) -> Boxes:
        """Return the boxes that ``to_text`` was called on."""
        content = json.loads(text)
        channels, places = (
            tuple(tuple((a, b) for a, b in ranges) for ranges in content[name])
            for name in ("channels", "places")
        )
        return Boxes(tuple((a, b) for a, b in content["rows"]), channels, places)


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
    ("image", "image"): "Halo",
    ("image", "whole"): "Gather",
    ("image", "worker"): "Gather",
    ("worker", "image"): "Slice",
    ("image", "batch"): "Regroup",
    ("batch", "image"): "Regroup",
    ("image", "feature"): "Regroup",
    ("feature", "image"): "Regroup",
}
"""The connection operators, by the kinds of sharding before and behind them (SINGA's connection layers)."""
