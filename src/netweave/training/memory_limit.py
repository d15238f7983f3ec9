"""A limit on the memory of a training run: the cheapest plan that fits, or an error before the first step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.memory_plan import TrainingMemory, plan_training

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from torch import Tensor

    from netweave.backends.torch import TorchNet
    from netweave.job import Job
    from netweave.memory_plan import Recomputation
    from netweave.optim import Updater

BATCHES = 6
"""Batches in memory: one that the net computes with, as it lies there, and those that the loader holds."""


def limit_memory(
    job: Job,
    nets: Mapping[str, TorchNet],
    updater: Updater,
    *,
    limit: int | None,
    num_stages: int = 1,
    kept: Collection[str] = (),
) -> Recomputation | None:
    """Have the training net compute values again, as few as a limit needs; return the plan.

    Args:
        job: The Job.
        nets: The net of each phase.
        updater: What changes the parameters.
        limit: Bytes, for all that the run holds; None for no limit.
        num_stages: Stages that the net is cut into.
        kept: Names of values that are looked at when forward ends.

    Raises:
        UsageError: No plan fits; the message says what would.
    """
    if limit is None:
        return None
    if num_stages != 1:
        raise UsageError(
            f"{job.name}: memory is limited and the net cut into {num_stages} stages, between which all "
            "values stay; leave one of the two out"
        )
    phase = job.phases["train"]
    batch = phase.data[0].batch_size if phase.data else 1
    store = nets["train"].store
    tensors = [store[key] for key in store]
    state = (tensor for own in updater.state.values() for tensor in own.values())
    run = TrainingMemory(
        parameters=sum(_num_bytes(stored.tensor) for stored in tensors),
        solver=sum(map(_num_bytes, state)),
        batches=BATCHES,
        accumulate=job.solver.accumulate,
    )
    found = plan_training(phase.graph, batch=batch, limit=limit, run=run, losses=phase.losses, kept=kept)
    nets["train"].recompute(found.net, found.names)
    return found


def _num_bytes(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
