"""Runs of nets."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.arguments import check_file, data_paths
from netweave.api.jobs import joined, shared, start_of, traced
from netweave.deferred import collector_at_rest
from netweave.errors import UsageError
from netweave.formats import find_job_format
from netweave.formats.caffe.phases import Reading, data_root, read_phase
from netweave.graph.passes.partition import placements
from netweave.installation import install_command
from netweave.job import JobOptions, checked_phases, checked_probe
from netweave.runtime.backends.runner import TORCH
from netweave.runtime.engine import ThreadedEngine, Trace
from netweave.training.checkpoint_file import SUFFIX
from netweave.training.data.probe import probe, probe_if_there
from netweave.training.data.source_names import kind_of
from netweave.training.events import Note
from netweave.training.loop import stopping
from netweave.training.monitor import Monitor, ValueWatch, Watched
from netweave.training.parallel.environment import rank_environment
from netweave.training.run_record import recorded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np

    from netweave.graph import Graph
    from netweave.job import Job, Phase
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Engine
    from netweave.training import Evaluated
    from netweave.training.events import Watch
    from netweave.training.monitor import Look
    from netweave.training.parallel.world import World
    from netweave.training.testing import Tester
    from netweave.training.trainer import Trainer
    from netweave.training.watchers import Audience, TrainOptions


EVENTS = "*tfevents*"

CHECKPOINTS = (".checkpoint", ".caffemodel", ".caffemodel.h5", ".solverstate", ".solverstate.h5", ".params")
"""Suffixes of files that a run can resume from, or that hold weights."""

MAX_DEPTH = 4

_ITERATION = re.compile(r"(?:iter_|-|_)(\d+)\.[a-z0-9.]+$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint file of a run.

    Attributes:
        name: Its path relative to the folder of the run.
        iteration: The number in its name; None if there is none.
        num_bytes: Its size.
        modified: When it was written, in seconds since 1970.
    """

    name: str
    iteration: int | None
    num_bytes: int
    modified: float

    @property
    def can_be_resumed(self) -> bool:
        """True if ``netweave train --resume`` finds it, and not only weights or Caffe's solver state."""
        return self.name.endswith(SUFFIX)


def find_runs(folder: str | Path) -> dict[str, float]:
    """Return the runs in a folder: relative paths of folders with event files, with the last change of each.

    Args:
        folder: The folder; it may itself be a run, which is named ``.``.
    """
    root = Path(folder)
    changed: dict[str, float] = {}
    for depth in range(MAX_DEPTH + 1):
        for file in root.glob("/".join(["*"] * depth + [EVENTS])):
            if file.is_file():
                name = file.parent.relative_to(root).as_posix()
                changed[name] = max(changed.get(name, 0.0), file.stat().st_mtime)
    return changed


def read_curves(run: str | Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves of a run by name: iteration and value of each point, in order of iteration.

    After a run was resumed from a checkpoint, the later event file replaces the earlier points from its first
    iteration on. A file that is still being written is read up to its last complete event.

    Raises:
        UsageError: TensorBoard's reader is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    except ImportError as error:
        raise UsageError(f"event files need the package tensorboard: {install_command('curves')}") from error
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for file in sorted(Path(run).glob(EVENTS)):
        begun: set[str] = set()
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                number = _scalar(value)
                if number is None:
                    continue
                curve = curves[value.tag]
                if value.tag not in begun:
                    begun.add(value.tag)
                    curves[value.tag] = curve = [point for point in curve if point[0] < event.step]
                curve.append((event.step, number))
    return dict(curves)


def find_checkpoints(run: str | Path) -> list[Checkpoint]:
    """Return the checkpoints in a run's folder, newest first."""
    folder = Path(run)
    files = [file for file in folder.rglob("*") if file.name.endswith(CHECKPOINTS) and file.is_file()]
    checkpoints = [
        Checkpoint(
            name=file.relative_to(folder).as_posix(),
            iteration=int(number[1]) if (number := _ITERATION.search(file.name)) else None,
            num_bytes=file.stat().st_size,
            modified=file.stat().st_mtime,
        )
        for file in files
    ]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.modified, reverse=True)


def _scalar(value: Any) -> float | None:
    """Return the number of a summary: TensorBoard's loader turns old scalars into tensors of one element."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    from tensorboard.util import tensor_util

    return float(tensor_util.make_ndarray(value.tensor))


def train_here(job: Job, options: TrainOptions, watch: Watch) -> TorchNet:
    """Train in this process, alone, as one of several ranks, or as a part of a cluster; see ``train``."""
    environment, cluster = rank_environment(), job.cluster
    if cluster is None or cluster.is_alone or environment is None or environment.size == 1:
        with joined(options) as world:
            return _train(job, options, watch, world)
    if cluster.cuts or options.micro_batches is not None:  # each worker updates its part of the net itself
        cluster.require_processes(environment.size)
        cluster.require_one_group()
        with joined(options) as world:
            return _train(job, options, watch, world)
    from netweave.training.cluster.part import cluster_part
    from netweave.training.parallel.world import TIMEOUT_S

    with cluster_part(job, options, environment, timeout_s=options.timeout_s or TIMEOUT_S) as part:
        for line in part.lines():
            watch(Note(line))
        options = replace(options, seed=part.choose_seed(options.seed))
        if part.role.worker is None:
            return part.serve()
        with part.join_group(options.device) as world:
            net = _train(part.of_group(job), part.options_of_group(options), watch, world)
        for line in part.close():
            watch(Note(line))
    return net


def _train(job: Job, options: TrainOptions, watch: Watch, world: World | None) -> TorchNet:
    from netweave.training.process import keep_memory
    from netweave.training.rank_exchange import stages_for
    from netweave.training.trainer import Trainer
    from netweave.training.watchers import Audience

    with traced(world, options.trace), ThreadedEngine() as engine:
        audience = Audience(watch)
        place = options.device or "cpu" if world is None else world.device
        if str(place) == "cpu":
            keep_memory()
        if world is not None and (world.size > 1 or options.same_bits is not None):
            job, options = shared(job, options, world, audience.show)
        options = replace(
            options,
            resume=start_of(world, job, options.resume, audience.show) or False,
            num_stages=options.num_stages or stages_for(world),
        )
        trainer = Trainer(
            job,
            options,
            engine=engine,
            device=place,
            world=world,
            looks=_looks(job, options),
            watch=audience.show,
        )
        try:
            rank = 0 if world is None else world.rank
            _show_to(audience, trainer, engine, options, rank=rank)
            folder = Path(options.events) if options.events and rank == 0 else None
            with recorded(folder, ledger=options.ledger) as note_end, stopping(trainer, options.stop_signal):
                audience.watch(note_end)
                trainer.run()
            net: TorchNet = trainer.whole_net()
        finally:
            trainer.close()
            audience.close()
    return net


def _looks(job: Job, options: TrainOptions) -> list[Look]:
    wanted = options.monitor
    if not wanted:
        return []
    graph = job.phases["train"].graph
    if isinstance(wanted, Monitor):
        return [ValueWatch(graph, wanted)]
    names = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    return [ValueWatch(graph, Watched(job.schedule.display_interval or 100, names))]


def _show_to(
    audience: Audience, trainer: Trainer, engine: Engine, options: TrainOptions, *, rank: int
) -> None:
    """Begin files; the Job is good by now, so that what is overwritten is not lost for nothing."""
    if options.trace:
        from netweave.training.parallel.timeline import trace_path

        trace = Trace(trace_path(Path(options.trace), rank))
        plan = trainer.placement()
        parts = {one.layer: part for one in placements(plan) if (part := one.part_of(rank, plan))}
        trace.describe("process_labels", {"labels": ", ".join(parts)})
        trace.describe("placement", parts)
        engine.trace_to(trace)
    is_first = rank == 0
    audience.add(
        trainer.history,
        events=Path(options.events) if options.events and is_first else None,
        plot=Path(options.plot) if options.plot and is_first else None,
    )


def need_torch() -> None:
    """Check that torch is installed.

    Raises:
        UsageError: It is not installed; the message says what to do.
    """
    try:
        with collector_at_rest():  # which takes a quarter of the time of this import
            importlib.import_module(TORCH)
    except ModuleNotFoundError as error:
        if error.name != TORCH:
            raise
        raise UsageError(
            f"training needs torch, which is not installed; install it with: {install_command(TORCH)}"
        ) from error


if TYPE_CHECKING:
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
            kind_of=kind_of,
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
