"""A limit on the memory of a training run: the cheapest plan that fits, or an error before the first step."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from netweave.runtime.memory_plan import Recomputation, TrainingMemory, plan_training

if TYPE_CHECKING:
    from torch import Tensor

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.stages import Stage
    from netweave.training.optim import Updater
    from netweave.training.ranks import RankExchange

BATCHES = 6
"""Batches in memory: one that the net computes with, as it lies there, and those that the loader holds."""


def limit_memory(
    job: Job,
    nets: Mapping[str, TorchNet],
    updater: Updater,
    *,
    limit: int,
    stages: Sequence[Stage],
    ranks: RankExchange | None = None,
    kept: Collection[str] = (),
) -> Recomputation:
    """Have the training net compute values again, as few as a limit needs; return the plan.

    Args:
        job: The Job.
        nets: The net of each phase.
        updater: What changes the parameters.
        limit: Bytes, for all that the run holds; that of each rank.
        stages: Those that the training net is cut into.
        ranks: What is exchanged with other ranks, each of which computes a part of the batch.
        kept: Names of values that are looked at when forward ends.

    Raises:
        UsageError: No plan fits; the message says what would.
        UnsupportedError: The batch is normalised over ranks.
    """
    phase = job.phases["train"]
    batch = phase.data[0].batch_size if phase.data else 1
    if ranks is not None:
        ranks.check_memory_plan(phase.graph)
        batch = -(-batch // ranks.world.size)
    store = nets["train"].store
    tensors = [store[key] for key in store]
    state = (tensor for own in updater.state.values() for tensor in own.values())
    run = TrainingMemory(
        parameters=sum(_num_bytes(stored.tensor) for stored in tensors),
        solver=sum(map(_num_bytes, state)),
        batches=BATCHES,
        accumulate=job.solver.accumulate,
        exchange=0 if ranks is None else ranks.num_bytes,
    )
    plan = plan_training(
        phase.graph,
        batch=batch,
        limit=limit,
        run=run,
        losses=phase.losses,
        kept=kept,
        stages=[stage.nodes for stage in stages] if len(stages) > 1 else (),
    )
    nets["train"].recompute(plan.net, plan.names)
    return plan


def _num_bytes(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
