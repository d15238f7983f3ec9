"""Running a phase over its data without training: means of its outputs, or features of its layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from netweave.errors import UsageError
from netweave.runtime.backends.torch.device import find_device
from netweave.training.events import Evaluated
from netweave.training.loading import LoaderConfig, PhaseLoader
from netweave.training.metrics import make_metric
from netweave.training.nets import make_nets
from netweave.training.output_metrics import averaged, measured
from netweave.training.views import VIEWS, cut_at_labels, tail_net, viewed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from netweave.job import Phase
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Engine, Variable
    from netweave.training.loading import Given

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
        found: dict[str, list[np.ndarray]] = {key: [] for key in wanted}
        for number, outputs in zip(range(1, num_batches + 1), self._plain(name), strict=False):
            for key in wanted:
                array = np.array(outputs[key].detach().cpu().numpy(), order="C")
                if not array.ndim:
                    raise UsageError(
                        f"{key!r} is one number for a whole batch, which is not a feature of a record"
                    )
                found[key].append(array)
            told(number, num_batches)
        return {key: np.concatenate(arrays) for key, arrays in found.items()}

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
            found = self._run(name, self._nets[name], batch, variables)
            yield {**found, **{key: batch[key].clone() for key in inputs}}

    def _in_views(self, name: str) -> Iterator[Outputs]:
        """Yield the outputs of batches whose predictions are means over ten views."""
        cut = cut_at_labels(self._phases[name].graph, _labels(self._phases[name]))
        tail = tail_net(cut, self._device, torch.float32)
        while True:
            views, labels = [], {}
            for loader in self._loaders[name]:
                batch, variables = loader.take()
                found = self._run(name, self._nets[name], batch, variables)
                views.append({key: found[key] for key in cut.predictions})
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
