"""Passes of a run's nets over batches of their own, between updates: tests, validation, the last display."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from netweave.runtime.backends.torch.node_memory import memories
from netweave.runtime.backends.torch.openmp import release_threads
from netweave.training.data import Turns
from netweave.training.events import Evaluated
from netweave.training.metrics import make_metric
from netweave.training.output_metrics import averaged, measured
from netweave.training.passes import COMPUTE, objective_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.job import Job, Phase
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Engine
    from netweave.training.loading import PhaseLoader
    from netweave.training.metrics import PhaseMetric
    from netweave.training.parallel.world import World
    from netweave.training.passes import Where
    from netweave.training.program import StepProgram
    from netweave.training.ranks import RankExchange

TEST_STREAM = 1 << 40
"""Tests draw as if they were updates from this number on, so that training never draws the same."""


def turns_of(phase: Phase, net: TorchNet, world: World | None) -> Turns | None:
    """Return which batches of a phase that is evaluated this rank takes; None if it takes all.

    A metric of the whole pass sees all batches on each rank.

    Args:
        phase: The phase.
        net: Its net; one that keeps something from batch to batch must see all of them.
        world: The ranks; None for a run of one.
    """
    count = phase.num_batches or 1
    if world is None or phase.metric or count < world.size or memories(net.module):
        return None
    return Turns(world.rank, world.size, count)


class Evaluator:
    """Computes nets of a run as they are between two updates.

    Args:
        job: The Job.
        nets: The net of each phase.
        loaders: The loader of each phase; it may be opened later.
        program: The updates, which evaluation waits for and which wait for it.
        engine: Where nets are computed.
        where: Device, precision and seed.
        ranks: The ranks that share the batches; None for a run of one.
    """

    def __init__(
        self,
        job: Job,
        nets: Mapping[str, TorchNet],
        loaders: Mapping[str, PhaseLoader],
        program: StepProgram,
        *,
        engine: Engine,
        where: Where,
        ranks: RankExchange | None,
    ) -> None:
        self._job, self._nets, self._loaders, self._program = job, nets, loaders, program
        self._engine, self._where, self._ranks = engine, where, ranks

    def evaluate(self, name: str, iteration: int) -> Evaluated:
        """Return the means of the outputs of a phase over its batches, those of all ranks together."""
        phase, ranks = self._job.phases[name], self._ranks
        turns = turns_of(phase, self._nets[name], None if ranks is None else ranks.world)
        numbers = range(phase.num_batches or 1)
        own = numbers if turns is None else numbers[turns.rank :: turns.size]
        metric = make_metric(phase)
        batches = (self._compute(name, number, iteration, metric)[1] for number in own)
        means = ranks.total_means if ranks is not None and turns is not None else None
        outputs = averaged(batches, means) | (metric.result() if metric else {})
        return Evaluated(iteration, name, outputs, phase.losses)

    def last_loss(self, iteration: int) -> tuple[float, dict[str, torch.Tensor]]:
        """Return objective and outputs of the training net on its next batch, without an update."""
        loss, outputs = self._compute("train", 0, iteration)
        if self._ranks is not None:
            numbers = {key: tensor for key, tensor in outputs.items() if not tensor.ndim}
            means = self._ranks.total_means({**numbers, "": torch.tensor(loss)}, 1)
            loss = float(means.pop(""))
            outputs |= means
        return loss, outputs

    def _compute(
        self, name: str, number: int, iteration: int, metric: PhaseMetric | None = None
    ) -> tuple[float, dict[str, torch.Tensor]]:
        """Compute the net of a phase on its next batch; return the objective and the outputs.

        Args:
            name: Of the phase.
            number: Of the batch in this pass.
            iteration: Updates done.
            metric: What looks at the whole pass.
        """
        phase, net, program, where = self._job.phases[name], self._nets[name], self._program, self._where
        batch, variables = self._loaders[name].take()
        samples = self._loaders[name].samples

        def compute() -> tuple[float, dict[str, torch.Tensor]]:
            net.train(name == "train")
            if net.draws is not None:
                first = number * self._loaders[name].batch_size
                net.draws.at(seed=where.seed, step=TEST_STREAM + iteration, first=first, samples=samples)
            with torch.no_grad(), torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
                outputs = net.compute({key: tensor.to(where.device) for key, tensor in batch.items()})
            names = [value.name or "" for value in phase.graph.outputs]
            loss = float(objective_of(outputs, phase.losses))
            return loss, measured({key: outputs[key].detach() for key in names}, batch, metric)

        release_threads()
        reads = [*variables, *program.parameters]
        task = self._engine.push(compute, reads, [program.state], lane=COMPUTE, name=f"{name} {iteration}")
        return task.result()
