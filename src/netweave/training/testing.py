"""Testing and evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.job import Job, Phase
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.device import find_device, release_threads
from netweave.runtime.backends.torch.node_memory import memories
from netweave.runtime.engine import Engine, Variable
from netweave.training.data import Turns
from netweave.training.events import Evaluated
from netweave.training.loading import Given, LoaderConfig, PhaseLoader, make_nets
from netweave.training.metrics import PhaseMetric, averaged, make_metric, measured
from netweave.training.net_passes import COMPUTE, VIEWS, Where, cut_at_labels, objective_of, tail_net, viewed

if TYPE_CHECKING:
    from netweave.training.parallel.world import World
    from netweave.training.rank_exchange import RankExchange
    from netweave.training.step_program import StepProgram

    Outputs = Mapping[str, torch.Tensor]
    Told = Callable[[int, int], None]

BATCHES = 50
"""Batches of a test where neither the caller nor the data say how many, as in the caffe command."""


class Tester:
    """Phases that are run in test mode.

    Args:
        phases: By name.
        engine: Where batches are made.
        weights: Files of weights, in order.
        data: By phase, what feeds it instead of its own data.
        taps: Names of values that ``features`` gives.
        views: Whether each image is tested in ten views.
        device: Where to compute.
        threads: Of decoding; None to find the number by itself.

    Raises:
        UsageError: An input is not fed, there is no such device, or there is only one view of each image.
        SourceError: Data or weights cannot be read, or do not fit.
    """

    def __init__(
        self,
        phases: Mapping[str, Phase],
        *,
        engine: Engine,
        weights: Sequence[str | Path],
        data: Mapping[str, Given] | None = None,
        taps: Sequence[str] = (),
        views: bool = False,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        self._phases = phases
        self._engine = engine
        self._device = find_device(device)
        self._views = views
        self._loaders: dict[str, list[PhaseLoader]] = {}
        taps = [*taps, *dict.fromkeys(name for phase in phases.values() for name in _cut_names(phase, views))]
        self._nets = make_nets(
            phases, weights=weights, taps=taps, seed=0, device=self._device, dtype=torch.float32
        )
        config = LoaderConfig(engine, 0, threads=threads)
        try:
            for name, phase in phases.items():
                given = (data or {}).get(name, {})
                shown = [viewed(phase, where, mirrored=side) for where, side in VIEWS] if views else [phase]
                self._loaders[name] = []
                for one in shown:
                    self._loaders[name].append(PhaseLoader(name, one, given, config))
        except BaseException:
            self.close()
            raise

    def num_batches(self, name: str, wanted: int | None) -> int:
        """Return how many batches a pass has: as many as wanted, as the source says, or as there are."""
        whole = self._loaders[name][0].batches_per_epoch
        known = self._phases[name].num_batches or (None if whole is None else int(np.ceil(whole)))
        return wanted or known or BATCHES

    def num_records(self, name: str) -> int | None:
        """Return how many records the first source of a phase has; None where they have no end."""
        loader = self._loaders[name][0]
        whole = loader.batches_per_epoch
        return None if whole is None else round(whole * loader.batch_size)

    def test(self, name: str, num_batches: int, told: Told = lambda done, of: None) -> Evaluated:
        """Return the means of a phase's outputs over batches.

        Args:
            name: Of the phase.
            num_batches: How many, >= 1.
            told: Told how many of how many are done.
        """
        phase = self._phases[name]
        names = [value.name or "" for value in phase.graph.outputs]
        metric = make_metric(phase)
        if metric is not None and self._views:
            raise UsageError("views are averaged where classes are predicted; leave them out for boxes")

        def outputs() -> Iterator[Outputs]:
            batches = (
                self._in_views(name) if self._views else self._plain(name, metric.inputs if metric else ())
            )
            for number, found in zip(range(1, num_batches + 1), batches, strict=False):
                yield measured({key: found[key] for key in names}, found, metric)
                told(number, num_batches)

        means = averaged(outputs())
        return Evaluated(0, name, means | (metric.result() if metric else {}), phase.losses)

    def features(
        self, name: str, wanted: Sequence[str], num_batches: int, told: Told = lambda done, of: None
    ) -> dict[str, np.ndarray]:
        """Return values of a phase's net over batches, one after the other along the first axis.

        Raises:
            UsageError: A value has no axis that counts records.
        """
        rows: dict[str, list[np.ndarray]] = {key: [] for key in wanted}
        for number, outputs in zip(range(1, num_batches + 1), self._plain(name), strict=False):
            for key in wanted:
                array = np.array(outputs[key].detach().cpu().numpy(), order="C")
                if not array.ndim:
                    raise UsageError(
                        f"{key!r} is one number for a whole batch, which is not a feature of a record"
                    )
                rows[key].append(array)
            told(number, num_batches)
        return {key: np.concatenate(arrays) for key, arrays in rows.items()}

    def close(self) -> None:
        """Let go of the data."""
        for loaders in self._loaders.values():
            for loader in loaders:
                loader.close()

    def _plain(self, name: str, inputs: Sequence[str] = ()) -> Iterator[Outputs]:
        """Yield the outputs of one batch after the other, and some of its inputs."""
        (loader,) = self._loaders[name]
        while True:
            batch, variables = loader.take()
            outputs = self._run(name, self._nets[name], batch, variables)
            given = {**batch, **loader.beside}
            yield {**outputs, **{key: given[key].clone() for key in inputs}}

    def _in_views(self, name: str) -> Iterator[Outputs]:
        """Yield the outputs of batches whose predictions are means over ten views."""
        cut = cut_at_labels(self._phases[name].graph, _labels(self._phases[name]))
        tail = tail_net(cut, self._device, torch.float32)
        while True:
            views, labels = [], {}
            for loader in self._loaders[name]:
                batch, variables = loader.take()
                outputs = self._run(name, self._nets[name], batch, variables)
                views.append({key: outputs[key] for key in cut.predictions})
                labels = {key: batch[key].clone() for key in cut.labels}
            means = cut.averaged(views)
            if tail is not None and cut.tail is not None:
                given = {**means, **labels}
                taken = {value.name or "": given[value.name or ""] for value in cut.tail.inputs}
                means |= self._run(name, tail, taken, [])
            yield means

    def _run(self, name: str, net: TorchNet, batch: Outputs, variables: Sequence[Variable]) -> Outputs:
        def compute() -> Outputs:
            with torch.inference_mode():
                return net.eval()(**{key: tensor.to(self._device) for key, tensor in batch.items()})

        return self._engine.push(compute, reads=variables, lane="compute", name=f"{name} batch").result()


def _labels(phase: Phase) -> list[str]:
    """Return the inputs that are no images: all but the first part of the first source."""
    first = phase.data[0].outputs[0]
    return [value.name or "" for value in phase.graph.inputs if value.name != first]


def _cut_names(phase: Phase, views: bool) -> list[str]:
    return list(cut_at_labels(phase.graph, _labels(phase)).predictions) if views and phase.data else []


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
        shares = ranks is not None and ranks.shares_tests
        turns = turns_of(phase, self._nets[name], None if ranks is None or shares else ranks.world)
        numbers = range(phase.num_batches or 1)
        own = numbers if turns is None else numbers[turns.rank :: turns.size]
        metric = make_metric(phase)
        batches = (self._compute(name, number, iteration, metric)[1] for number in own)
        means = ranks.total_means if ranks is not None and (shares or turns is not None) else None
        outputs = averaged(batches, means) | (metric.result() if metric else {})
        return Evaluated(iteration, name, outputs, phase.losses)

    def last_loss(self, iteration: int) -> tuple[float, dict[str, torch.Tensor]]:
        """Return objective and outputs of the training net on its next batch, without an update."""
        loss, outputs = self._compute("train", 0, iteration)
        if self._ranks is not None:
            numbers = {key: tensor for key, tensor in outputs.items() if not tensor.ndim}
            count = self._ranks.display_passes
            for _ in range(count - 1):
                own, others = self._compute("train", 0, iteration)
                loss += own
                numbers = {key: tensor + others[key] for key, tensor in numbers.items()}
            means = self._ranks.total_means({**numbers, "": torch.tensor(loss, dtype=torch.float64)}, count)
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
        ranks = self._ranks
        batch, variables = self._loaders[name].take()
        shown = {**batch, **self._loaders[name].beside}
        samples, offset = self._loaders[name].samples, self._loaders[name].offset

        def compute() -> tuple[float, dict[str, torch.Tensor]]:
            net.train(name == "train")
            if net.draws is not None:
                first = number * self._loaders[name].batch_size + offset
                net.draws.at(seed=where.seed, step=TEST_STREAM + iteration, first=first, samples=samples)
            with torch.no_grad(), torch.autocast(where.device.type, torch.bfloat16, enabled=where.mixed):
                inputs = {key: tensor.to(where.device) for key, tensor in batch.items()}
                outputs = net.compute(inputs) if ranks is None else ranks.compute(name, net, inputs)
            names = [value.name or "" for value in phase.graph.outputs if value.name in outputs]
            losses = {key: weight for key, weight in phase.losses.items() if key in outputs}
            loss = float(objective_of(outputs, losses))
            return loss, measured({key: outputs[key].detach() for key in names}, shown, metric)

        release_threads()
        reads = [*variables, *program.parameters]
        task = self._engine.push(compute, reads, [program.state], lane=COMPUTE, name=f"{name} {iteration}")
        return task.result()
