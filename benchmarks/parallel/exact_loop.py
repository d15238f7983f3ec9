"""A loop of PyTorch's with ``netweave.exact``, on the module and optimizer of the others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from time import perf_counter
from typing import TYPE_CHECKING

import torch

from benchmarks.parallel import nets
from benchmarks.parallel.torch_exchanges import Objective, lowered
from netweave import exact

if TYPE_CHECKING:
    import numpy as np

    from netweave.job import Job


class ExactLoop:
    """A training loop with updates of the same bits on any number of ranks.

    Args:
        job: What to train.
        data: Arrays of all records by input.
        shards: Of a batch.
        overlaps: Whether gradients are sent while the backward of the last shard goes on.
        momentum: Of the optimizer.
    """

    def __init__(
        self, job: Job, data: Mapping[str, np.ndarray], *, shards: int, overlaps: bool, momentum: float
    ) -> None:
        net = lowered(job)
        # each exchange meets the other ranks by itself, at a store of its own
        os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
        self._exchange = exact.Exchange(net.module, shards, overlap=overlaps)
        size = job.phases["train"].data[0].batch_size // shards
        self._shards = [
            net.placed(
                {key: torch.from_numpy(rows[one * size : (one + 1) * size]) for key, rows in data.items()}
            )
            for one in self._exchange.shards.numbers
        ]
        self._module = Objective(net.module)
        self._optimizer = torch.optim.SGD(
            [one for one in net.module.parameters() if one.requires_grad],
            lr=nets.RATE,
            momentum=momentum,
            weight_decay=nets.DECAY,
            fused=True,
        )

    def run(self, count: int) -> list[float]:
        """Make steps; return when the loss of each was known."""
        return [self._step() for _ in range(count)]

    def close(self) -> None:
        """Let go of threads and tensors."""
        self._exchange.close()
        self.__dict__.clear()

    def _step(self) -> float:
        for inputs in self._shards:
            self._exchange.begin_shard()
            objective = self._module(*inputs)
            objective.item()
            known_s = perf_counter()
            objective.backward()
            self._exchange.end_shard()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return known_s
