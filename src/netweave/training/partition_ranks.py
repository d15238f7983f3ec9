"""One of several ranks whose net is cut across them: what it exchanges, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, distributed

from netweave.errors import UnsupportedError, UsageError
from netweave.graph import unread_arrays
from netweave.graph.parameters import undo_layout
from netweave.graph.passes.partition import require_layers, shares
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.node_memory import to_array
from netweave.training.checkpoint_file import nested
from netweave.training.loading import TrainState
from netweave.training.optim import Trained, Updater
from netweave.training.optim.rule import make_rule
from netweave.training.parallel.exchange import Exchange
from netweave.training.partitioned import Partition
from netweave.training.rank_exchange import RankExchange

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.graph.passes.partition import LayerCut
    from netweave.job import Job, RunState, Solver
    from netweave.runtime.engine import Engine, Variable
    from netweave.training.checkpoint_file import Checkpoint
    from netweave.training.parallel.world import World
    from netweave.training.watchers import TrainOptions


class PartitionRanks(RankExchange):
    """Tasks that a run adds to an update whose net is cut across the ranks.

    Args:
        partition: The cut.
        world: The ranks.
        options: Say how gradients are exchanged.
        engine: Where tasks run.

    Attributes:
        partition: The cut.
        parameters: Whole arrays by key, after ``collect_state``.
        kept: What the solver keeps, whole, by its name for it and by key.
    """

    shares_tests = True

    def __init__(self, partition: Partition, world: World, options: TrainOptions, *, engine: Engine) -> None:
        super().__init__(world, options, engine=engine)
        self.partition = partition
        self.parameters: dict[str, np.ndarray] = {}
        self.kept: dict[str, dict[str, np.ndarray]] = {}
        self._num_shared = 0

    def is_shared(self, key: str) -> bool:
        """Return whether all ranks have the same array."""
        return self.partition.holding(key).is_shared

    def make_updater(
        self, solver: Solver, parameters: Sequence[Trained], slice_elements: int, *, seed: int
    ) -> Updater:
        """Return what updates the arrays of this rank."""
        own = self.partition.trained(parameters)
        whole = make_rule(solver.kind, solver.settings).whole_parameters
        layout = self.partition.layout(own, slice_elements, whole_parameters=whole)
        return Updater(solver, own, seed=seed, layout=layout)

    def exchange_slices(self, updater: Updater, graph: Graph, stages: Sequence[int]) -> None:
        """Lay out the exchange of what all workers hold; in one order, whatever their stages are."""
        layout = self.partition.shared_part(updater.layout)
        self._num_shared = len(layout.slices)
        if self._num_shared:
            slices = self._slices(updater, graph, [0] * len(stages))[: self._num_shared]
            parameters = {key: updater.parameters[key] for key in layout.offsets}
            self._exchange = Exchange(
                self.world, self._settings, layout, parameters, slices, engine=self._engine
            )

    def push_gradients(self, step: int, gradients: Sequence[Variable]) -> None:
        """Push the exchange of the gradients that all workers have a share of."""
        if self._num_shared:
            super().push_gradients(step, gradients[: self._num_shared])

    def push_parameters(self, step: int, parameters: Sequence[Variable]) -> None:
        """Push the way of shared parameters from their owners."""
        if self._num_shared:
            super().push_parameters(step, parameters[: self._num_shared])

    def owns(self, number: int) -> bool:
        """Return whether this worker updates a slice."""
        return number >= self._num_shared or super().owns(number)

    def measure_gradients(self, updater: Updater) -> Tensor:
        """Return the rule's sums over all parts of each parameter of this rank, and last of all others."""
        has_owners = self._settings.has_owners
        own = [
            number
            for number in range(len(updater.layout.slices))
            if (self.owns(number) if has_owners or number >= self._num_shared else self.world.is_first)
        ]
        sums = updater.measure(own)
        rows = {key: row for row, key in enumerate(self.partition.wholes)}
        have = [rows[key] for key in updater.parameters]
        total = sums.new_zeros(len(rows), *sums.shape[1:])
        total[have] = sums
        with self.world.watched("the sums of gradients"):
            distributed.all_reduce(total, group=self.world.group("measures"))
        others = [row for row in range(len(rows)) if row not in have]
        return torch.cat([total[have], total[others].sum(0, keepdim=True)])

    def collect_state(self, updater: Updater) -> None:
        """Gather whole arrays from the parts of all ranks, and what the solver keeps for them."""
        if self._num_shared:
            super().collect_state(updater)
        self.parameters = self.gather()
        self.kept = {name: self._gather_kept(name, updater) for name in updater.rule.names}

    def gather(self) -> dict[str, np.ndarray]:
        """Return all whole arrays, in the source's layouts; all ranks call this."""
        store, arrays = self.partition.store, {}
        for key, whole in self.partition.wholes.items():
            own = store[key].as_source(store[key].tensor) if key in store else None
            arrays[key] = self._gather_one(key, own, whole.shape, whole.axis)
        return arrays

    def _gather_kept(self, name: str, updater: Updater) -> dict[str, np.ndarray]:
        """Return what the solver keeps under a name, whole, in the layouts of nets."""
        return {
            key: self._gather_one(
                key,
                updater.state[key][name] if key in updater.state else None,
                whole.leaf_shape,
                whole.leaf_axis,
            )
            for key, whole in self.partition.wholes.items()
            if whole.is_trained
        }

    def _gather_one(self, key: str, own: Tensor | None, sizes: Sequence[int], axis: int) -> np.ndarray:
        partition, world = self.partition, self.world
        if partition.holding(key).is_shared:
            assert own is not None
            return to_array(own)
        parts: list[np.ndarray | None] = []
        for rank in range(world.size):
            shape = partition.sizes_of(key, rank, sizes, axis)
            if shape is None:
                parts.append(None)
                continue
            part = torch.empty(shape, dtype=partition.wholes[key].dtype, device=world.device)
            if rank == world.rank:
                assert own is not None
                part.copy_(own.detach())
            with world.watched("collecting the parts of the net"):
                distributed.broadcast(part, rank, group=world.group("collect"))
            parts.append(to_array(part))
        return partition.joined(key, parts, axis)

    def residuals(self) -> dict[int, np.ndarray]:
        """Return, on rank 0, what each rank has not sent yet, by rank."""
        return super().residuals() if self._num_shared else {}

    def restore_residuals(self, residuals: Mapping[int, np.ndarray]) -> None:
        """Go on with residuals."""
        if self._num_shared:
            super().restore_residuals(residuals)

    def total_means(self, sums: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
        """Return the means over batches, of outputs of which each rank has its rows."""
        numbers = {key: value for key, value in sums.items() if not value.ndim}
        means = super().total_means(numbers, count)
        for key in sorted(sums.keys() - numbers.keys()):
            own = (sums[key] / count).contiguous()
            rows = torch.tensor([len(own)])
            group = self.world.group("tests")
            with self.world.watched("the outputs of a test"):
                distributed.all_reduce(rows, group=group)
                parts = []
                for rank, (start, stop) in enumerate(shares(int(rows), self.world.size)):
                    part = own if rank == self.world.rank else own.new_empty((stop - start, *own.shape[1:]))
                    distributed.broadcast(part, rank, group=group)
                    parts.append(part)
            means[key] = torch.cat(parts)
        return means


@dataclass(frozen=True, slots=True)
class PartitionedState(TrainState):
    """The state of a run whose net is cut across ranks; files hold whole arrays, for any partition.

    Attributes:
        ranks: The ranks; ``collect_state`` comes before ``capture`` and ``as_source``.
    """

    ranks: PartitionRanks

    def capture(self, state: Mapping[str, Any], beside: Mapping[str, np.ndarray]) -> Checkpoint:
        """Return a copy of everything, whole, with some JSON values and arrays beside it."""
        own = TrainState.capture(self, state, beside)
        arrays = {
            name: array for name, array in own.arrays.items() if not name.startswith(("param:", "solver:"))
        }
        arrays |= {f"param:{key}": array for key, array in self.ranks.parameters.items()}
        for name, kept in self.ranks.kept.items():
            arrays |= {f"solver:{name}:{key}": array for key, array in kept.items()}
        return replace(own, arrays=arrays)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where ``capture`` was called, by any partition.

        Raises:
            UsageError: The checkpoint is of another net or solver.
        """
        partition = self.ranks.partition
        arrays = {
            name: array
            for name, array in checkpoint.arrays.items()
            if not name.startswith(("param:", "solver:"))
        }
        for key, array in nested(checkpoint.arrays, "param"):
            self._take(arrays, f"param:{key}", key, array, is_leaf=False)
        for name, array in nested(checkpoint.arrays, "solver"):
            self._take(arrays, f"solver:{name}", name.partition(":")[2], array, is_leaf=True)
        missing = [key for key in partition.wholes if f"param:{key}" not in checkpoint.arrays]
        if missing:
            raise UsageError(
                f"the checkpoint belongs to another net: {', '.join(sorted(missing)[:5])} differ"
            )
        TrainState.restore(self, replace(checkpoint, arrays=arrays))

    def _take(
        self, arrays: dict[str, np.ndarray], name: str, key: str, array: np.ndarray, *, is_leaf: bool
    ) -> None:
        """Enter this rank's part of a whole array, if it has any."""
        partition = self.ranks.partition
        if key not in partition.wholes:
            arrays[name] = array  # of another net, which is told
            return
        whole = partition.wholes[key]
        if array.shape != (whole.leaf_shape if is_leaf else whole.shape):
            arrays[name] = array
        elif partition.holding(key).has(partition.worker):
            axis = whole.leaf_axis if is_leaf else whole.axis
            arrays[name] = partition.part(key, torch.from_numpy(array), axis).numpy()

    def as_source(self, parameters: Mapping[str, np.ndarray]) -> RunState:
        """Return the whole run as the format of the Job's source has it."""
        wholes = self.ranks.partition.wholes
        kept = {
            name: {
                key: undo_layout(array, wholes[key].steps, wholes[key].shape) for key, array in own.items()
            }
            for name, own in self.ranks.kept.items()
        }
        partition = self.ranks.partition
        parts = {
            key: partition.parts(key, array)
            for key, array in parameters.items()
            if key in wholes and not partition.holding(key).is_shared
        }
        return replace(TrainState.as_source(self, parameters), kept=kept, parts=parts)

    def restore_foreign(self, path: Path) -> None:
        """Refuse the state of another program, which holds whole arrays.

        Raises:
            UnsupportedError: Always.
        """
        raise UnsupportedError(
            f"{path}: a net that is cut across workers resumes from a .checkpoint only; convert the state by "
            "a run of one device"
        )


def partition_of(
    job: Job, options: TrainOptions, world: World | None, *, taps: Sequence[str] = ()
) -> Partition | None:
    """Return how a Job's nets are cut across ranks; None where all layers are cut by batch.

    Args:
        job: What is trained.
        options: How.
        world: The ranks.
        taps: Names of values that are looked at.

    Raises:
        UsageError: An option does not go with such a net, or a layer or worker is not there.
        UnsupportedError: A layer cannot be cut so, or the run does what such a net cannot.
    """
    cuts, count = () if job.cluster is None else job.cluster.cuts, options.micro_batches
    if count is not None and (world is None or world.size == 1):
        raise UsageError(
            f"{job.name}: {count} micro-batches pass through a net whose layers live on several devices, and "
            "there is one; give --devices cpu:2 (devices='cpu:2'), or leave micro_batches out"
        )
    if world is None or world.size == 1 or (not cuts and count is None):
        return None
    _require_plain(job, options, cuts, looks=bool(taps))
    if count is not None:
        _require_micro_batches(job, options, count)
    require_layers(cuts, [phase.graph for phase in job.phases.values()])
    return Partition(job.running, cuts, num_workers=world.size, worker=world.rank, micro_batches=count)


def _require_micro_batches(job: Job, options: TrainOptions, count: int) -> None:
    """Refuse a batch that has no such parts, and what a pipeline has no use for."""
    for source in job.phases["train"].data:
        size = source.batch_size
        if size % count:
            near = min((n for n in range(1, size + 1) if not size % n), key=lambda n: (abs(n - count), n))
            raise UsageError(
                f"{source.place or job.name}: a batch of {size} records cannot be divided into {count} "
                f"micro-batches of like size; take {near} micro-batches, or a batch size that is divisible "
                f"by {count}"
            )
    settings = options.exchange_settings
    if (settings.kind, settings.compression) != ("overlapped", "none"):
        raise UsageError(
            f"exchange {settings.kind!r} with compression {settings.compression!r} is for gradients that "
            "several workers share, and the stages of a pipeline share none; leave them out, or leave "
            "micro_batches out"
        )
    if job.solver.accumulate > 1:
        raise UnsupportedError(
            f"{job.name}: an update accumulates {job.solver.accumulate} batches, which is not supported "
            "together with micro-batches; take one larger batch, and more micro-batches"
        )


def _require_plain(job: Job, options: TrainOptions, cuts: Sequence[LayerCut], *, looks: bool) -> None:
    """Refuse what a net that is cut by layer cannot do."""
    first = cuts[0] if cuts else None
    what = f"{first.place}: " if first and first.place else f"{job.name}: "
    cut = (
        f"{what}layer {first.name!r} is cut across workers"
        if first
        else f"{what}layers live on several workers"
    )
    if options.same_bits is not None:
        raise UsageError(
            f"{cut}, so that sums depend on their number; leave same_bits out, or use partition_dim: 0"
        )
    for name, wanted in (("memory", None), ("sync_batch_norm", True), ("precision", "f32")):
        if getattr(options, name) != wanted:
            raise UsageError(f"{cut}, and {name} is not supported for such a net; leave it out")
    if looks or options.monitor or job.schedule.display_norms:
        raise UnsupportedError(f"{cut}; looking at its values while it trains is not supported; leave it out")
    if job.algorithm == "cd":
        raise UnsupportedError(f"{cut}, which contrastive divergence is not supported for")
    if job.checkpoints.gradients:
        raise UnsupportedError(f"{cut}, and its gradients cannot be written (snapshot_diff); leave that out")
    metric = next((name for name, phase in job.running.items() if phase.metric), None)
    if metric is not None:
        raise UnsupportedError(f"{cut}, and the metric of phase {metric!r} needs whole batches; leave it out")
    rule = make_rule(job.solver.kind, job.solver.settings)
    if rule.whole_parameters or rule.draws_noise:
        raise UnsupportedError(
            f"{cut}, and {job.solver.kind} needs each parameter whole; use another update rule"
        )


def whole_net(job: Job, ranks: PartitionRanks) -> TorchNet:
    """Return the training net with the whole arrays of all ranks, which all call this."""
    net = TorchNet(job.phases["train"].graph, taps=list(job.phases["train"].losses))
    arrays = ranks.gather()
    for key, array in unread_arrays(job.phases["train"].graph).items():
        net.store.add_constant(job.phases["train"].graph.parameters[key], array)
    net.to(ranks.world.device).to(next(iter(ranks.partition.wholes.values())).dtype)
    for key in net.params:
        net.params[key] = torch.from_numpy(arrays[key])
    return net
