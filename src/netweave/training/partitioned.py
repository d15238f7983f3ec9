"""Nets cut across the workers of a run: the net of one worker, and whole arrays from the parts of all.

The objective is the mean of the workers' objectives (``runtime.backends.torch.whole_batch``), and each worker
differentiates the sum. So the gradient of what one worker alone holds is divided by their number; that of
what all of them hold is averaged by an exchange.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from netweave.errors import UnsupportedError
from netweave.graph.parameters import Step
from netweave.graph.passes.partition import (
    SHARED,
    Holding,
    PartitionPlan,
    last_axis,
    length,
    locations,
    partition_plan,
    pipeline_plan,
    placements,
    stage_graph,
    worker_graph,
)
from netweave.graph.summary import bytes_text
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.training.optim.rule import FlatLayout, Trained, flat_layout

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.graph.passes.partition import LayerCut
    from netweave.job import Phase


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole array of which workers hold parts.

    Attributes:
        shape: Its sizes in the source's layout.
        axis: The axis that is cut there.
        leaf_shape: Its sizes in the layout that nets compute with.
        leaf_axis: The axis that is cut there.
        steps: From the one layout to the other.
        dtype: Type of its numbers.
        is_trained: Whether a solver changes it.
    """

    shape: tuple[int, ...]
    axis: int
    leaf_shape: tuple[int, ...]
    leaf_axis: int
    steps: tuple[Step, ...]
    dtype: torch.dtype
    is_trained: bool


def placement_lines(plan: PartitionPlan, dtype: torch.dtype) -> list[str]:
    """Return one line for each layer: its ranks, what each computes, and the bytes in and out.

    Args:
        plan: The training net, cut across ranks; bytes are those of a forward pass of the whole batch.
        dtype: Type of its numbers.
    """
    lines = []
    for one in placements(plan):
        parts = {rank: one.part_of(rank, plan) for rank in range(plan.num_workers)}
        where = "; ".join(f"rank {rank}: {part}" for rank, part in parts.items() if part)
        received, sent = (bytes_text(count * dtype.itemsize) for count in (one.received, one.sent))
        lines.append(f"{one.layer} ({one.kind}) on {where}; {received} in, {sent} out")
    return lines


class Partition:
    """The nets of a run, cut across workers.

    Args:
        phases: The phases by name.
        cuts: The layers that are not cut by batch.
        num_workers: The number of workers.
        worker: This one.
        taps: Names of values that the training net gives besides outputs and losses.
        micro_batches: Parts of a batch that pass through the layers one after another, each worker being a
            stage of the pipeline; None where all workers compute the whole batch at the same time.

    Attributes:
        micro_batches: Parts of a batch that pass through a pipeline; None where there is none.
        plans: The plan of each phase.
        graphs: The graph of this worker, by phase.
        holdings: The part of each array that workers hold, by key.
        store: This worker's parts.
        wholes: The arrays of which they are parts, of all workers, by key.
        dtype: Type of the numbers that nets compute with.

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
        micro_batches: int | None = None,
    ) -> None:
        self.num_workers, self.worker, self.micro_batches = num_workers, worker, micro_batches
        self.plans: dict[str, PartitionPlan] = {}
        self.graphs: dict[str, Graph] = {}
        self._names: dict[str, list[str]] = {}
        self.holdings: dict[str, Holding] = {}
        self.store = ParameterStore()
        self.wholes: dict[str, Whole] = {}
        self.dtype = torch.float32
        make, graph_of = (
            (partition_plan, worker_graph) if micro_batches is None else (pipeline_plan, stage_graph)
        )
        for name in sorted(phases, key=lambda one: one != "train"):
            phase = phases[name]
            wanted = [*phase.losses, *(taps if name == "train" else ())]
            rows = phase.data[0].batch_size if phase.data else 1
            plan = make(phase.graph, cuts, num_workers=num_workers, num_rows=rows, wanted=wanted)
            self.plans[name] = plan
            if micro_batches is not None and name == "train":  # the stages of the other nets
                places = {cut.name: cut.place for cut in cuts}
                cuts = [replace(cut, place=places.get(cut.name, "")) for cut in locations(plan)]
            self.graphs[name] = graph_of(plan, worker, wanted=wanted)
            given = {value.name for value in self.graphs[name].outputs}
            self._names[name] = [one for one in wanted if micro_batches is None or one in given]
            for key, holding in plan.holdings.items():
                if self.holdings.setdefault(key, holding) != holding:
                    raise UnsupportedError(f"the phases cut the parameter {key!r} differently")

    def nets(self, whole: Mapping[str, TorchNet]) -> dict[str, TorchNet]:
        """Return this worker's nets, with its parts of the arrays of whole nets."""
        nets = {}
        for name, graph in self.graphs.items():
            source = whole[name]
            for key, parameter in self.plans[name].graph.parameters.items():
                if key in source.store:
                    self.wholes.setdefault(key, self._whole(key, source, is_trained=bool(parameter.lr_mult)))
            net = TorchNet(graph, taps=self._names[name], store=self.store)
            for key, parameter in graph.parameters.items():
                if key in source.store and source.store[key].constant:
                    self.store.add_constant(parameter, source.params[key].detach().cpu().numpy())
            like = next(source.module.parameters(), None)
            if like is not None:
                net.to(like.device).to(like.dtype)
                self.dtype = like.dtype
            for key in net.params:
                net.params[key] = self.part(key, source.params[key].detach(), self.wholes[key].axis)
            nets[name] = net
        return nets

    def _whole(self, key: str, net: TorchNet, *, is_trained: bool) -> Whole:
        row = net.store[key]
        axis = self.holding(key).axis
        leaf_axis = last_axis(row.parameter.shape, row.steps, axis)
        return Whole(
            row.parameter.shape,
            axis,
            tuple(row.tensor.shape),
            0 if leaf_axis is None else leaf_axis,
            row.steps,
            row.tensor.dtype,
            is_trained and row.parameter.trainable and row.tensor.is_floating_point(),
        )

    def lines(self) -> list[str]:
        """Return the lines of the log: what each worker holds, and what goes between workers in an update."""
        plan = self.plans["train"]
        each = ", ".join(f"{plan.elements_of(worker):,}" for worker in range(self.num_workers))
        moved = sum(edge.elements for edge in plan.edges.values())
        if self.micro_batches is not None:
            return [*self._lines_of_stages(), *plan.notes]
        return [
            *dict.fromkeys(note for each_plan in self.plans.values() for note in each_plan.notes),
            f"{self.num_workers} workers hold {each} of {plan.graph.num_parameters:,} parameters; "
            f"{len(plan.edges)} connections between layers move {moved:,} numbers forward for each batch",
        ]

    def _lines_of_stages(self) -> list[str]:
        plan, count = self.plans["train"], self.micro_batches or 1
        layers: dict[int, list[str]] = {worker: [] for worker in range(self.num_workers)}
        for cut in locations(plan):
            layers[cut.location or 0].append(cut.name)
        moved = [0] * self.num_workers
        for edge in plan.edges.values():
            moved[edge.before.worker] += edge.elements
        lines = [
            f"stage {worker}: {names[0]} to {names[-1]} ({len(names)} layers), {plan.elements_of(worker):,} "
            f"parameters, sends {moved[worker]:,} numbers forward for each batch"
            for worker, names in layers.items()
        ]
        if count > 1 and any(node.op_type == "BatchNormalization" for node in plan.graph.nodes):
            lines.append(
                f"batch normalisation takes the statistics of each micro-batch of {plan.num_rows // count} "
                f"samples, as one process does that accumulates {count} batches of this size"
            )
        return lines

    def holding(self, key: str) -> Holding:
        """Return the part of an array that each worker has."""
        return self.holdings.get(key, SHARED)

    def part(self, key: str, whole: Tensor, axis: int, worker: int | None = None) -> Tensor:
        """Return a worker's part of an array.

        Args:
            key: Of the array.
            whole: The array.
            axis: The axis that is cut.
            worker: One that has some of it; this one by default.
        """
        holding = self.holding(key)
        if holding.sharding.kind != "feature":
            return whole
        ranges = holding.sharding.channels[self.worker if worker is None else worker]
        return torch.cat([whole.narrow(axis, a, b - a) for a, b in ranges], axis)

    def parts(self, key: str, whole: np.ndarray) -> tuple[np.ndarray | None, ...]:
        """Return the parts of all workers of an array in the source's layout; None where one has none."""
        holding, axis = self.holding(key), self.wholes[key].axis
        return tuple(
            self.part(key, torch.from_numpy(whole), axis, worker).numpy() if holding.has(worker) else None
            for worker in range(self.num_workers)
        )

    def joined(self, key: str, parts: Sequence[np.ndarray | None], axis: int) -> np.ndarray:
        """Return a whole array from the parts of all workers.

        Args:
            key: Of the array.
            parts: By worker; None where one has none of it.
            axis: The axis that is cut.
        """
        present = [part for part in parts if part is not None]
        holding = self.holding(key)
        if holding.sharding.kind != "feature":
            return present[0]
        channels = holding.sharding.channels
        sizes = list(present[0].shape)
        sizes[axis] = sum(map(length, channels))
        made, before = np.empty(sizes, present[0].dtype), (slice(None),) * axis
        for array, ranges in zip(present, channels, strict=True):
            taken = 0
            for start, stop in ranges:
                own = array[(*before, slice(taken, taken + stop - start))]
                made[(*before, slice(start, stop))] = own
                taken += stop - start
        return made

    def sizes_of(self, key: str, worker: int, whole: Sequence[int], axis: int) -> tuple[int, ...] | None:
        """Return the sizes of a worker's part of an array; None where it has none of it.

        Args:
            key: Of the array.
            worker: The worker.
            whole: The sizes of the whole array.
            axis: The axis that is cut.
        """
        holding = self.holding(key)
        if not holding.has(worker):
            return None
        sizes = list(whole)
        if holding.sharding.kind == "feature":
            sizes[axis] = length(holding.sharding.channels[worker])
        return tuple(sizes)

    def trained(self, parameters: Sequence[Trained]) -> list[Trained]:
        """Return what this worker changes: first what all workers have, in the same order on all."""
        own = [one for one in parameters if not self.holding(one.key).is_shared]
        for one in own:
            if one.tensor.requires_grad and self.micro_batches is None:
                # divided as it comes, since rules also look at norms of gradients
                one.tensor.register_hook(lambda gradient: gradient / self.num_workers)
        return [*(one for one in parameters if self.holding(one.key).is_shared), *own]

    def layout(
        self, parameters: Sequence[Trained], slice_elements: int, *, whole_parameters: bool
    ) -> FlatLayout:
        """Return slices none of which holds both what all workers have and what this one has alone.

        Args:
            parameters: What this worker changes, as ``trained`` returned it.
            slice_elements: Most elements of a slice.
            whole_parameters: Let no slice cut a parameter.
        """
        sizes = {one.key: one.tensor.numel() for one in parameters if one.lr_mult}
        shared, own = (
            flat_layout(
                {key: size for key, size in sizes.items() if self.holding(key).is_shared is is_shared},
                slice_elements=slice_elements,
                whole_parameters=whole_parameters,
            )
            for is_shared in (True, False)
        )
        offsets = flat_layout(sizes, whole_parameters=True).offsets
        return FlatLayout(offsets, (*shared.slices, *own.slices), shared.slice_elements)

    def shared_part(self, layout: FlatLayout) -> FlatLayout:
        """Return the slices of what all workers have, which are the first."""
        slices = tuple(spans for spans in layout.slices if self.holding(spans[0].key).is_shared)
        offsets = {key: layout.offsets[key] for key in layout.offsets if self.holding(key).is_shared}
        return FlatLayout(offsets, slices, layout.slice_elements)
