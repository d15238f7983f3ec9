"""Values that all ranks of a run must have in common.

Ranks with other settings would begin other collectives: they would wait for each other until the timeout, or
sum what does not belong together.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.optim import Updater
    from netweave.training.parallel.plan import ExchangeSettings


def exchange_in_common(settings: ExchangeSettings) -> dict[str, Any]:
    """Return how gradients are exchanged: groups are made by it, so it is compared before there are any."""
    return {f"the exchange's {name}": value for name, value in asdict(settings).items()}


def run_in_common(
    job: Job, *, seed: int, num_stages: int, num_batches: Mapping[str, float | None]
) -> dict[str, Any]:
    """Return what a run does and when, as JSON values by what they are called in messages.

    Where files lie may differ from machine to machine, so paths are not among them.

    Args:
        job: The Job, with this run's batch.
        seed: Of what is drawn; ranks with different ones would shuffle records differently.
        num_stages: Stages of the training net.
        num_batches: Batches in an epoch, by phase.
    """
    schedule, checkpoints, solver = asdict(job.schedule), job.checkpoints, job.solver
    found: dict[str, Any] = {name.replace("_", " "): value for name, value in schedule.items()}
    found |= {f"the solver's {name}": value for name, value in solver.settings.items()}
    found |= {f"the policy's {name}": repr(value) for name, value in asdict(solver.policy).items()}
    found |= {
        "the seed": seed,
        "the solver": solver.kind,
        "batches in an update": solver.accumulate,
        "iterations between checkpoints": checkpoints.interval,
        "a checkpoint at the end": checkpoints.at_end,
        "stages": num_stages,
    }
    for name, phase in job.phases.items():
        found |= {
            f"records in a batch of {name}": [source.batch_size for source in phase.data],
            f"the order of records of {name}": repr([sorted(source.order.items()) for source in phase.data]),
            f"batches of a pass of {name}": phase.num_batches,
            f"batches in an epoch of {name}": num_batches[name],
        }
    return found


def values_in_common(nets: Mapping[str, TorchNet], updater: Updater) -> dict[str, Any]:
    """Return fingerprints of what the nets hold, by what they are called in messages."""
    shapes, values = hashlib.sha256(), hashlib.sha256()
    for net in nets.values():
        for key, tensor in sorted(net.params.items()):
            shapes.update(f"{key} {tuple(tensor.shape)} {tensor.dtype}".encode())
            values.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    layout = hashlib.sha256(repr((updater.layout, updater.rule)).encode())
    prints = {"a net": shapes, "slices": layout, "parameters": values}
    return {f"{what} with the fingerprint": digest.hexdigest()[:12] for what, digest in prints.items()} | {
        "the iteration": updater.iteration
    }
