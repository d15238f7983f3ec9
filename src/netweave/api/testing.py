"""Nets that have been trained: tested, and asked for the features of their layers."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.training import need_torch
from netweave.data.probe import probe, probe_if_there
from netweave.engine import ThreadedEngine
from netweave.errors import UsageError
from netweave.formats.caffe.phases import Reading, data_root, read_phase
from netweave.formats.caffe.solver import is_solver, read_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from netweave.graph import Graph
    from netweave.job import Phase
    from netweave.training import Evaluated
    from netweave.training.testing import Tester

    Told = Callable[[int, int], None]


def load_phases(
    net: str | Path,
    phase: str = "TEST",
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    missing_data: bool = False,
) -> dict[str, Phase]:
    """Read nets with the data that they name: those that a solver tests or trains, or one net by itself.

    Args:
        net: A ``solver.prototxt``, or a net of Caffe's with data layers.
        phase: ``TEST`` or ``TRAIN``.
        input_shapes: Sizes of inputs by name, batch size first; those of the data are found by opening it.
        stages: Stages to be in.
        level: Level to be at.
        missing_data: Whether data that are not there are no error where the files say all sizes.

    Raises:
        SourceError: A file or data cannot be read, or they do not fit together.
        UsageError: The solver has no test net.
    """
    path, opened = Path(net), probe_if_there if missing_data else probe
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    if path.is_file() and is_solver(path):
        job = read_solver(path, probe=opened, input_shapes=shapes, stages=tuple(stages), level=level)
        found = {"train": job.phases["train"]} if phase == "TRAIN" else job.tests
        if not found:
            raise UsageError(f"{path}: has no test net (test_iter); give the net itself")
        return found
    reading = Reading(data_root(path), opened, shapes, tuple(stages), level)
    return {phase.lower(): read_phase(path, phase, reading)}


def evaluate(
    net: str | Path | Mapping[str, Phase],
    weights: str | Path | Sequence[str | Path],
    *,
    num_batches: int | None = None,
    views: bool = False,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    told: Told = lambda done, of: None,
) -> list[Evaluated]:
    """Run nets over their data in test mode; return the means of their outputs, one for each net.

    Args:
        net: A ``solver.prototxt`` or a net, as for ``load_phases``, or what that returned.
        weights: One file or several: ``.caffemodel``, ``.caffemodel.h5``, ``.solverstate``'s weights or a
            ``.checkpoint``.
        num_batches: How many batches; None for as many as the solver says, or else all records once.
        views: Average the predictions over ten views: corners and centre, and mirrored.
        data: By phase (``test``), arrays of all records by input, instead of what the net names.
        device: Where to compute, as torch names it.
        threads: Of decoding; None to find the number by itself.
        told: Told how many batches of how many are done.

    Raises:
        SourceError: A file cannot be read, or files do not fit together.
        UsageError: Torch is not installed, there is no such device, or there is but one view of an image.
    """
    phases = load_phases(net) if isinstance(net, str | Path) else net
    options = {"data": data, "views": views, "device": device, "threads": threads}
    with _tester(phases, weights, **options) as tester:
        return [tester.test(name, tester.num_batches(name, num_batches), told) for name in phases]


def extract(
    net: str | Path | Mapping[str, Phase],
    weights: str | Path | Sequence[str | Path],
    layers: Sequence[str],
    *,
    num_batches: int | None = None,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    device: str = "cpu",
    threads: int | None = None,
    told: Told = lambda done, of: None,
) -> dict[str, np.ndarray]:
    """Return what layers of a net compute for its data, by name, one record after the other.

    Args:
        net: A net, as for ``load_phases``, or what that returned; of a solver's test nets the first.
        weights: As for ``evaluate``.
        layers: Names of values (Caffe's blobs), or of layers; an input counts, such as the labels.
        num_batches: How many batches; None for all records once, and none twice.
        data: As for ``evaluate``.
        device: Where to compute, as torch names it.
        threads: Of decoding; None to find the number by itself.
        told: Told how many batches of how many are done.

    Raises:
        SourceError: A file cannot be read, or files do not fit together.
        UsageError: Torch is not installed, or there is no such layer or device.
    """
    phases = load_phases(net) if isinstance(net, str | Path) else net
    name, phase = next(iter(phases.items()))
    wanted = {layer: value for asked in layers for layer, value in _values(phase.graph, asked).items()}
    options = {"data": data, "taps": list(wanted.values()), "device": device, "threads": threads}
    with _tester({name: phase}, weights, **options) as tester:
        count = tester.num_batches(name, num_batches)
        found = tester.features(name, list(wanted.values()), count, told)
        most = None if num_batches else tester.num_records(name)
    return {layer: found[value][:most] for layer, value in wanted.items()}


def _values(graph: Graph, name: str) -> dict[str, str]:
    """Return the values that a name means: one of that name, or the outputs of the layer."""
    if name in graph.values() or name in graph.aliases:
        return {name: name}
    layer = next((layer for layer in graph.layers.values() if name in {layer.name, layer.key}), None)
    if layer is None:
        known = ", ".join(dict.fromkeys(layer.name for layer in graph.layers.values()))
        raise UsageError(f"{graph.name}: there is no layer {name!r}; there are: {known}")
    if len(layer.outputs) == 1:
        return {name: layer.outputs[0]}
    return {value: value for value in layer.outputs}


@contextmanager
def _tester(
    phases: Mapping[str, Phase], weights: str | Path | Sequence[str | Path], **options: Any
) -> Iterator[Tester]:
    need_torch()
    from netweave.training.testing import Tester

    files = [weights] if isinstance(weights, str | Path) else weights
    with ThreadedEngine() as engine:
        tester = Tester(phases, engine=engine, weights=files, **options)
        try:
            yield tester
        finally:
            tester.close()
