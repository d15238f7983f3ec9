"""A batch of which each rank computes a part; sums over it are sums over all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed

from netweave.runtime.backends.torch.whole_batch import WholeBatch

if TYPE_CHECKING:
    from netweave.training.parallel.world import World


class RankedBatch(WholeBatch):
    """A batch of which each rank of a world computes a part.

    Args:
        world: The ranks.
        is_synchronised: Whether batch statistics are those of the whole batch, not of each rank's part.

    Attributes:
        waited_s: How long sums took, most of it waiting for other ranks.
    """

    def __init__(self, world: World, *, is_synchronised: bool = True) -> None:
        self.parts = world.size
        self.is_synchronised = is_synchronised
        self._world = world
        self._group = world.group("whole batch")
        self.waited_s = 0.0

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks; so is the gradient of it."""
        summed: Tensor = _Sum.apply(value, self)
        return summed

    def sum_over_ranks(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, without a gradient."""
        summed = value.detach().clone(memory_format=torch.contiguous_format)
        began = perf_counter()
        with self._world.watched("the sum over a batch"), self._world.occupancy.waiting():
            distributed.all_reduce(summed, group=self._group)
        self.waited_s += perf_counter() - began
        return summed

    def exchange(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        """Send a part to each rank, and return what comes from each."""
        sent = torch.cat(list(parts))
        received = sent.new_empty(sum(sizes))
        began = perf_counter()
        with self._world.watched("the exchange between layers"), self._world.occupancy.waiting():
            distributed.all_to_all_single(
                received, sent, list(sizes), [len(part) for part in parts], group=self._group
            )
        self.waited_s += perf_counter() - began
        return list(received.split(list(sizes)))


class _Sum(torch.autograd.Function):  # type: ignore[misc]  # torch says no types
    """All-reduce forwards and backwards: what each rank makes of the sum depends on every rank's part."""

    @staticmethod
    def forward(context: Any, value: Tensor, batch: RankedBatch) -> Tensor:
        context.batch = batch
        return batch.sum_over_ranks(value)

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor, None]:
        return context.batch.sum_over_ranks(above[0]), None
