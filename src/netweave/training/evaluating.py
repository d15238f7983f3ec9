"""One batch through the net of a phase, without an update."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from netweave.training.output_metrics import measured
from netweave.training.passes import objective_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.backends.torch import TorchNet
    from netweave.job import Phase
    from netweave.training.metrics import PhaseMetric
    from netweave.training.passes import Where

TEST_STREAM = 1 << 40
"""Tests draw as if they were updates from this number on, so that training never draws the same."""


def run_batch(
    phase: Phase,
    net: TorchNet,
    batch: Mapping[str, torch.Tensor],
    *,
    where: Where,
    step: int,
    first: int,
    samples: int,
    metric: PhaseMetric | None,
) -> tuple[float, dict[str, torch.Tensor]]:
    """Return the objective of a batch, and the outputs of which means are taken.

    Args:
        phase: The phase.
        net: Its net, in training or test mode.
        batch: The inputs.
        where: Where to compute.
        step: Updates done.
        first: Number of the batch's first record in this pass.
        samples: Records in the batch.
        metric: What looks at the whole pass.
    """
    if net.draws is not None:
        net.draws.at(seed=where.seed, step=TEST_STREAM + step, first=first, samples=samples)
    with torch.no_grad(), torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
        outputs = net.compute({key: tensor.to(where.device) for key, tensor in batch.items()})
    names = [value.name or "" for value in phase.graph.outputs]
    loss = float(objective_of(outputs, phase.losses))
    return loss, measured({key: outputs[key].detach() for key in names}, batch, metric)
