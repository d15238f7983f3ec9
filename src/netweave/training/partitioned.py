"""Nets cut across the workers of a run: the net of one worker, and whole arrays from the parts of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netweave.errors import UnsupportedError
from netweave.graph.passes.partition import (
    Holding,
    PartitionPlan,
    partition_plan,
    worker_graph,
)
from netweave.graph.passes.partition.plan import SHARED
from netweave.runtime.backends.torch import ParameterStore, TorchNet

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.graph.passes.partition import LayerCut
    from netweave.job import Phase


class Partition:
    """The nets of a run, cut across workers.

    Args:
        phases: The phases by name.
        cuts: The layers that are not cut by batch.
        num_workers: The number of workers.
        worker: This one.
        taps: Names of values that the training net gives besides outputs and losses.

    Attributes:
        plans: The plan of each phase.
        graphs: The graph of this worker, by phase.
        holdings: The part of each array that workers hold, by key.

    Raises:
        UsageError: There is no such worker or cut.
        UnsupportedError: A layer cannot be cut so, or phases cut an array differently.
    """

    def __init__(
        self,
        phases: Mapping[str, Phase],
        cuts: Sequence[LayerCut],
        *,
        num_workers: int,
        worker: int,
        taps: Sequence[str] = (),
    ) -> None:
        self.num_workers, self.worker = num_workers, worker
        self.plans: dict[str, PartitionPlan] = {}
        self.graphs: dict[str, Graph] = {}
        self._names: dict[str, list[str]] = {}
        self.holdings: dict[str, Holding] = {}
        for name, phase in phases.items():
            wanted = [*phase.losses, *(taps if name == "train" else ())]
            rows = phase.data[0].batch_size if phase.data else 1
            plan = partition_plan(
                phase.graph, cuts, num_workers=num_workers, num_rows=rows, wanted=wanted
            )
            self.plans[name], self._names[name] = plan, wanted
            self.graphs[name] = worker_graph(plan, worker, wanted=wanted)
            for key, holding in plan.holdings.items():
                if self.holdings.setdefault(key, holding) != holding:
                    raise UnsupportedError(f"the phases cut the parameter {key!r} differently")

    def nets(self, whole: Mapping[str, TorchNet]) -> dict[str, TorchNet]:
        """Return this worker's nets with their parts of the arrays of whole nets."""
        store = ParameterStore()
        nets = {}
        for name, graph in self.graphs.items():
            source = whole[name]
            net = TorchNet(graph, taps=self._names[name], store=store)
            for key in graph.parameters:
                if key in source.store and source.store[key].constant:
                    store.add_constant(graph.parameters[key], source.params[key].detach().cpu().numpy())
            like = next(iter(source.module.parameters()), None)
            if like is not None:
                net.to(like.device).to(like.dtype)
            for key in net.params:
                net.params[key] = self.part(key, source.params[key].detach())
            nets[name] = net
        return nets

    def holding(self, key: str) -> Holding:
        """Return the part of an array that each worker has."""
        return self.holdings.get(key, SHARED)

    def part(self, key: str, whole: Tensor) -> Tensor:
        """Return this worker's part of an array, in the source's layout."""
        holding = self.holding(key)
        if holding.layout.kind != "feature":
            return whole
        ranges, axis = holding.layout.channels[self.worker], holding.axis
        return torch.cat([whole.narrow(axis, a, b - a) for a, b in ranges], axis)

    def joined(self, key: str, parts: Sequence[np.ndarray | None]) -> np.ndarray:
        """Return a whole array from the parts of all workers, in the source's layout."""
        holding = self.holding(key)
        if holding.layout.kind != "feature":
            worker = holding.layout.worker if holding.layout.kind == "worker" else 0
            whole = parts[worker]
            assert whole is not None
            return whole
        arrays = [part for part in parts if part is not None]
        axis, channels = holding.axis, holding.layout.channels
        sizes = list(arrays[0].shape)
        sizes[axis] = sum(stop - start for ranges in channels for start, stop in ranges)
        made = np.empty(sizes, arrays[0].dtype)
        for array, ranges in zip(arrays, channels, strict=True):
            taken = 0
            for start, stop in ranges:
                where = (slice(None),) * axis
                made[(*where, slice(start, stop))] = array[(*where, slice(taken, taken + stop - start))]
                taken += stop - start
        return made
