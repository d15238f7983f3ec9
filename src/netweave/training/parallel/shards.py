"""Updates that are the same to the bit on any number of ranks: a batch in a fixed number of shards.

Each shard is a pass of its own, whoever computes it. The shards' gradients are added in one fixed tree, so
that the sum depends on their number alone: a rank adds what lies below one node of the tree among its own
shards; collectives only move rows (each rank gets one part of every row, and sends the sum of the parts
back), and the rest of the tree is added there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from netweave.errors import UnsupportedError, UsageError
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.runtime.backends.trials import processor
from netweave.training.data.order import Shards
from netweave.training.parallel.exchange import Exchange, Hop, laid_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.distributed import Work

    from netweave.training.checkpoint_file import Checkpoint
    from netweave.training.parallel.world import Group, World
    from netweave.training.watchers import TrainOptions


THREADS = 1
"""Threads of a shard's pass: sums over many elements are rounded by how they are shared out."""

SHARDS = "the number of shards"
"""Its name in messages and checkpoints."""


def kernels() -> dict[str, str]:
    """Return by name what the bits of a pass depend on besides the net: the processor and its libraries."""
    versions = re.search(r"MKL-DNN v(\S+)", torch.__config__.show())
    return {
        "the processor": processor()["model name"],
        "the instruction set": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "oneDNN": versions[1] if versions else "none",
    }


def check_promise(options: TrainOptions, checkpoint: Checkpoint | None) -> None:
    """Refuse to go on from a checkpoint where the bits would not be those of the run that it is of.

    Raises:
        UsageError: They would not, and nobody has said that other bits will do.
    """
    promised = checkpoint.state.get("same bits") if checkpoint else None
    if not promised or options.other_bits:
        return
    here = {**kernels(), SHARDS: options.same_bits or "none (--same-bits)"}
    changed = [
        f"{name} was {before}, and is {here.get(name)}"
        for name, before in promised.items()
        if before != here.get(name)
    ]
    if changed:
        raise UsageError(
            f"the run would go on with other bits: {'; '.join(changed)}; resume with these as they were, or "
            "accept other bits with --other-bits (other_bits=True)"
        )


def shards_of(world: World, size: int) -> Shards:
    """Return the shards that this rank takes of each batch.

    Raises:
        UsageError: They cannot be shared out evenly.
    """
    if size % world.size:
        divisors = [str(ranks) for ranks in range(1, size + 1) if size % ranks == 0]
        raise UsageError(
            f"{size} shards cannot be shared out evenly among {world.size} ranks; take "
            f"{', '.join(divisors[:-1])} or {divisors[-1]} ranks"
            if len(divisors) > 1
            else f"a batch of one shard is for one rank, not for {world.size}"
        )
    count = size // world.size
    return Shards(world.rank * count, count, size)


class ShardSum:
    """The sum of one row for each shard, in the order of a fixed tree.

    Two neighbouring blocks are added when they are the halves of a block of 2, 4, 8, ... shards that begins
    at a multiple of its size; what is left at the end, where their number is no power of two, from the left.
    Rows of single shards stay as they are; sums of several are changed in place.
    """

    def __init__(self) -> None:
        self.blocks: list[tuple[int, int, Tensor]] = []

    def add(self, start: int, stop: int, row: Tensor) -> None:
        """Add the sum of a block of shards, which follows the last one."""
        while self.blocks and _are_halves(*self.blocks[-1][:2], stop):
            row = _added(self.blocks[-1], row)
            start, *_ = self.blocks.pop()
        self.blocks.append((start, stop, row))

    def take(self) -> Tensor:
        """Return the sum of all, and begin again."""
        (start, stop, total), *rest = self.blocks
        self.blocks = []
        for _, end, row in rest:
            total = _added((start, stop, total), row)
            stop = end
        return total


def _added(block: tuple[int, int, Tensor], row: Tensor) -> Tensor:
    start, stop, left = block
    return left + row if stop - start == 1 else left.add_(row)


def tree_sum(rows: Iterable[Tensor]) -> Tensor:
    """Return the sum of one row for each shard, all of them."""
    total = ShardSum()
    for shard, row in enumerate(rows):
        total.add(shard, shard + 1, row)
    return total.take()


def blocks_of(shards: Sequence[int]) -> list[tuple[int, int]]:
    """Return the blocks that are left of neighbouring shards when halves of blocks are joined.

    >>> blocks_of(range(3, 8))
    [(3, 4), (4, 8)]
    """
    found: list[tuple[int, int]] = []
    for shard in shards:
        start = shard
        while found and _are_halves(*found[-1], shard + 1):
            start = found.pop()[0]
        found.append((start, shard + 1))
    return found


def _are_halves(start: int, middle: int, stop: int) -> bool:
    return middle - start == stop - middle and start % (stop - start) == 0


class ShardBatch(WholeBatch):
    """A batch in shards of equal size, of which each is normalised by its own statistics.

    Args:
        parts: How many.
    """

    is_synchronised = False

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.waited_s = 0.0

    def total(self, value: Tensor) -> Tensor:
        """Return what the sum is if all shards are as this one: a share of right answers is then its own."""
        return value * self.parts

    def divisor(self, count: Tensor | float | None) -> Tensor | float:
        """Return what a shard's sum is divided by so that the mean over the shards is right.

        Raises:
            UnsupportedError: What is counted differs from shard to shard.
        """
        if isinstance(count, Tensor):
            raise UnsupportedError(
                "a loss divides by a number of labels or weights that differs from shard to shard, which is "
                "not supported with --same-bits; train without it, or normalise by the size of the batch"
            )
        return 1 / self.parts if count is None else max(1, count * self.parts) / self.parts


@dataclass(slots=True)
class _OnWay:
    """The transfers of a slice: rows, parts of rows of all ranks, and parts of the sum."""

    sent: Tensor
    received: Tensor


class ShardExchange(Exchange):
    """Adds the gradients of all shards; the plan, the rows and the order are ``Exchange``'s.

    Args:
        shards: Those that this rank computes.
        arguments: As for ``Exchange``.
        options: As for ``Exchange``.
    """

    def __init__(self, shards: Shards, *arguments: Any, **options: Any) -> None:
        self._shards = shards
        self._sums: dict[str, ShardSum] = {}
        self._left: dict[str, int] = {}  # how many slices of each sum are still to be sent
        self._on_way: dict[int, _OnWay] = {}
        super().__init__(*arguments, **options)

    @property
    def num_bytes(self) -> int:
        """The bytes of all rows: those of the blocks of shards, sent and received, besides the gradients."""
        num_blocks = self._shards.count.bit_length() + 1
        return super().num_bytes * (1 + 3 * num_blocks)

    def take(self, shard: int, keys: Iterable[str]) -> None:
        """Take the gradients of parameters after the backward of a shard that completes them.

        After the last one of this rank the mean over all shards has their place, once it is there.
        """
        for key in keys:
            parameter = self._parameters.get(key)
            if parameter is not None:
                self.add(shard, key, parameter.grad)
                parameter.grad = self.mean(key) if shard == self._shards.numbers[-1] else None

    def add(self, shard: int, key: str, gradient: Tensor | None) -> None:
        """Add the gradient of a parameter in a shard, which must not change until it is sent."""
        parameter = self._parameters[key]
        row = laid_out(gradient, parameter)
        total = self._sums.setdefault(key, ShardSum())
        total.add(shard, shard + 1, torch.zeros_like(parameter) if row is None else row.detach())

    def mean(self, key: str) -> Tensor:
        """Return what becomes the mean over all shards of a parameter's gradients."""
        return self._gradients.views[key]

    def _gradient_hops(self, name: str) -> list[Hop]:
        world = self._world
        parts, sums = world.group(name), world.group(f"sums of {name}")
        return [
            Hop("parts", self._channel(name), partial(self._begin_parts, parts), self._add_parts),
            Hop("sums", self._channel(f"sums of {name}"), partial(self._begin_sums, sums), self._end_sums),
        ]

    def _begin_parts(self, group: Group, number: int) -> Work:
        rows = self._rows(number)
        bounds = self._bounds(number)
        sent = rows[0]
        if len(rows) > 1:
            sent = torch.cat([row[start:stop] for start, stop in bounds for row in rows])
        own_start, own_stop = bounds[self._world.rank]
        counts = [len(self._blocks(rank)) * (own_stop - own_start) for rank in range(self._world.size)]
        received = sent.new_empty(sum(counts))
        self._on_way[number] = _OnWay(sent, received)
        return distributed.all_to_all_single(
            received,
            sent,
            counts,
            [len(rows) * (stop - start) for start, stop in bounds],
            group=group,
            async_op=True,
        )

    def _rows(self, number: int) -> list[Tensor]:
        """Return the elements of a slice, a row for each block of this rank's shards."""
        keys = [span.key for span in self._layout.slices[number]]
        slice_, rows = self._gradients.slice(number), []
        num_blocks = len(self._blocks(self._world.rank))
        for place in range(num_blocks):
            blocks = {key: self._sums[key].blocks[place][2] if key in self._sums else None for key in keys}
            self._gradients.load(number, blocks)
            rows.append(slice_ if place == num_blocks - 1 else slice_.clone())
        for key in keys:
            left = self._left.pop(key, len(self._layout.slices_of(key))) - 1
            if left:
                self._left[key] = left
            else:  # let go of it now: backward goes on in memory that is in the cache still
                self._sums.pop(key, None)
        return rows

    def _add_parts(self, number: int) -> None:
        """Add this rank's part of all rows."""
        start, stop = self._bounds(number)[self._world.rank]
        row, total, at = self._on_way[number].received, ShardSum(), 0
        for rank in range(self._world.size):
            for first, end in self._blocks(rank):
                total.add(first, end, row[at : at + stop - start])
                at += stop - start
        part = total.take().mul_(1.0 / self._shards.size)
        target = self._gradients.slice(number)
        if len(target) % self._world.size:  # parts of one size are what can be gathered
            size = self._part_size(number)
            part = torch.cat([part, part.new_zeros(size - len(part))])
            target = part.new_empty(self._world.size * size)
        self._on_way[number] = _OnWay(part, target)

    def _begin_sums(self, group: Group, number: int) -> Work:
        way = self._on_way[number]
        return distributed.all_gather_single(way.received, way.sent, group=group, async_op=True)

    def _end_sums(self, number: int) -> None:
        target, received = self._gradients.slice(number), self._on_way.pop(number).received
        if len(received) > len(target):
            target.copy_(received[: len(target)])

    def _blocks(self, rank: int) -> list[tuple[int, int]]:
        count = self._shards.count
        return blocks_of(range(rank * count, (rank + 1) * count))

    def _part_size(self, number: int) -> int:
        return -(-len(self._gradients.slice(number)) // self._world.size)

    def _bounds(self, number: int) -> list[tuple[int, int]]:
        """Return where the part of a slice that each rank adds begins and ends."""
        elements, size = len(self._gradients.slice(number)), self._part_size(number)
        return [
            (min(rank * size, elements), min((rank + 1) * size, elements)) for rank in range(self._world.size)
        ]
