"""Nets that have been trained: tested, and asked for the features of their layers."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.arguments import check_file, data_paths
from netweave.api.running import need_torch
from netweave.errors import UsageError
from netweave.formats import find_job_format
from netweave.formats.caffe.phases import Reading, data_root, read_phase
from netweave.job import JobOptions, checked_phases, checked_probe
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data.probe import probe, probe_if_there

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
    data: Mapping[str, str | Path] | str | Path | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    missing_data: bool = False,
    allow_urls: Sequence[str] = (),
) -> dict[str, Phase]:
    """Read nets together with their data: the nets of a solver, or a single net.

    Args:
        net: A ``solver.prototxt``, a ``job.conf``, a ``.cfg`` of Darknet's, or a Caffe net with data layers.
        phase: ``TEST`` or ``TRAIN``.
        input_shapes: Input sizes by name, batch size first; the sizes of data layers come from the data.
        data: Where the records of a solver's nets are, as for ``load_job``.
        stages: Stages of the net.
        level: Level of the net.
        missing_data: Whether to accept missing data if the files give all sizes.
        allow_urls: URLs that the files may name for their records, as for ``load_job``.

    Raises:
        SourceError: A file or its data cannot be read, or they do not match.
        UsageError: The solver has no test net, or a file names a URL that is not allowed.
    """
    path, opened = check_file(net, what="net"), probe_if_there if missing_data else probe
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    row = find_job_format(path)
    if row is not None:
        paths = data_paths(data)
        options = JobOptions(
            input_shapes=shapes,
            data=paths,
            stages=tuple(stages),
            level=level,
            allow_urls=tuple(allow_urls),
            probe=opened,
        )
        job = row.read_job(path, options)
        phases = {"train": job.phases["train"]} if phase == "TRAIN" else job.tests
        if not phases:
            raise UsageError(
                f"{path}: has no test net (a solver has one with test_iter, a job.conf with test_freq and "
                "test_steps, a .data file with valid); give the net itself"
            )
        return phases
    if data:
        raise UsageError(f"{path}: names its data itself; data can be given for a solver or a .cfg only")
    reading = Reading(data_root(path), checked_probe(opened, allow_urls), shapes, tuple(stages), level)
    return checked_phases({phase.lower(): read_phase(path, phase, reading)}, allow_urls)


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
    """Run nets on their data in test mode, and return the means of the outputs of each net.

    Args:
        net: A solver, ``job.conf`` or net, as for ``load_phases``, or its result.
        weights: One file or several: ``.caffemodel``, ``.caffemodel.h5``, ``.solverstate``'s weights or a
            ``.checkpoint``.
        num_batches: Number of batches; None for the solver's number, or else every record once.
        views: Average the predictions over ten crops: corners and centre, and their mirror images.
        data: By phase (``test``), arrays of all records by input, instead of the net's own data.
        device: Torch's name of the device to compute on.
        threads: Number of decoder threads; None to choose it automatically.
        told: Called with the number of batches done and the total.

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
    """Return the activations of layers for each record of a net's data, by layer name.

    Args:
        net: A net, as for ``load_phases``, or its result; for a solver, the first test net is used.
        weights: As for ``evaluate``.
        layers: Names of values (Caffe's blobs), layers or inputs, such as the labels.
        num_batches: Number of batches; None for every record exactly once.
        data: As for ``evaluate``.
        device: Torch's name of the device to compute on.
        threads: Number of decoder threads; None to choose it automatically.
        told: Called with the number of batches done and the total.

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
        features = tester.features(name, list(wanted.values()), count, told)
        most = None if num_batches else tester.num_records(name)
    return {layer: features[value][:most] for layer, value in wanted.items()}


def _values(graph: Graph, name: str) -> dict[str, str]:
    """Return the values that a name refers to: the value of that name, or the outputs of that layer."""
    if name in graph.values() or name in graph.aliases:
        return {name: name}
    layer = next((layer for layer in graph.layers.values() if name in {layer.name, layer.key}), None)
    if layer is None:
        known = ", ".join(dict.fromkeys(layer.name for layer in graph.layers.values()))
        raise UsageError(f"{graph.name}: there is no layer {name!r}; expected one of {known}")
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
