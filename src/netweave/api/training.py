"""Reading Jobs from files, and training them."""

from __future__ import annotations

import importlib
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.ranks import joined, start_of
from netweave.data.probe import probe
from netweave.engine import ThreadedEngine, Trace
from netweave.errors import UsageError
from netweave.files import is_file
from netweave.formats.caffe.solver import read_solver
from netweave.formats.singa import is_job, read_job
from netweave.job import Job
from netweave.memory_plan import parse_bytes
from netweave.training.monitor import Monitor, Watched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from netweave.backends.torch import TorchNet
    from netweave.training.events import Watch
    from netweave.training.trainer import Trainer


def load_job(
    solver: str | Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data: Mapping[str, str | Path] | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
) -> Job:
    """Read a training configuration: Caffe's ``solver.prototxt`` with its nets, or SINGA's ``job.conf``.

    Args:
        solver: The file.
        input_shapes: Input sizes by name, batch size first; the sizes of data layers come from the data.
        data: By phase (``train``, ``test``), the path of its records, instead of the path in its net.
        stages: Stages of the training net, besides those in the file.
        level: Level of the training net, if not 0.

    Raises:
        SourceError: The solver, a net or its data cannot be read, or they do not match.
        UsageError: ``data`` names an unknown phase, or one that does not read records.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    paths = {phase: str(path) for phase, path in (data or {}).items()}
    if is_file(Path(solver)) and is_job(Path(solver)):
        return read_job(Path(solver), input_shapes=shapes, data=paths)
    return read_solver(
        Path(solver), probe=probe, input_shapes=shapes, data=paths, stages=tuple(stages), level=level
    )


def train(
    job: Job | str | Path,
    *,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    resume: str | Path | bool = False,
    weights: Sequence[str | Path] = (),
    device: str | None = None,
    precision: str = "f32",
    seed: int | None = None,
    threads: int | None = None,
    trace: str | Path | None = None,
    events: str | Path | None = None,
    plot: str | Path | None = None,
    keep: int | None = None,
    num_stages: int | None = None,
    memory: str | int | None = None,
    exchange: str = "overlapped",
    compression: str = "none",
    batch: str | None = None,
    slice_elements: int | None = None,
    timeout_s: float | None = None,
    monitor: Monitor | Sequence[str] | None = None,
    watch: Watch | None = None,
) -> TorchNet:
    """Train a net and return it.

    A process that ``torchrun`` or ``netweave train --devices`` has started is one of several ranks: it joins
    the others, and all train one net together.

    Ctrl-C writes a checkpoint and stops after the current iteration; a second Ctrl-C stops at once.

    Args:
        job: A Job, or a file as for ``load_job``.
        data: By phase (``train``, ``test``), arrays of all records by input, instead of the Job's own data.
        resume: A checkpoint, or Caffe's ``.solverstate``, to resume from; True for the latest complete one.
        weights: Weight files to start from, instead of the Job's.
        device: Torch's name of the device to compute on; the CPU by default.
        precision: ``f32``, or ``bf16`` for convolutions and matrix products in bfloat16; parameters, their
            updates and losses stay in float32.
        seed: Random seed, instead of the Job's.
        threads: Number of decoder threads; None to choose it automatically.
        trace: File for a timeline in Chrome's trace format.
        events: Folder for TensorBoard event files.
        plot: File for a plot of loss, test results and learning rate, from the beginning of the run even
            after it was resumed.
        keep: Number of Netweave checkpoints to keep, >= 1; 3 by default.
        num_stages: Number of stages that the net is split into, each with its own tasks; the result is
            bit-identical for any number. By default 1, or 8 on several ranks.
        memory: Memory limit of the run: bytes, or a size such as ``4GB``. Backward then recomputes as few
            values as needed instead of keeping them; the result is bit-identical.
        exchange: How ranks exchange gradients: ``overlapped``, ``blocking``, ``prioritised``, ``owner``,
            ``owner-by-layer`` or ``two-level``.
        compression: Form in which they are sent: ``none``, ``fp16``, ``bf16`` or ``2bit``.
        batch: Whether ranks ``split`` the Job's batch or ``multiply`` it; by default what its source does.
        slice_elements: Elements of a slice, the unit of exchange, a multiple of 64; chosen by the link by
            default.
        timeout_s: Seconds to wait for a rank; 60 by default.
        monitor: Values of the training net to look at: names of layers, values or parameters, or patterns
            with ``*``, every display interval; or a ``netweave.training.Monitor`` with its own interval.
            Their statistics and histograms are in ``ValuesSeen`` events and in the event files.
        watch: Called with each event of ``netweave.training.events``, on every rank.

    Raises:
        SourceError: A file cannot be read, or files do not match.
        UsageError: Torch is not installed, there is no such device, the Job cannot be run, or it does
            not fit in ``memory``; the message says what would.
        RunError: The loss became NaN or infinite, or a checkpoint cannot be written.
    """
    need_torch()
    from netweave.parallel.batch import batch_meaning, describe_batch, with_batch
    from netweave.parallel.link_speed import slice_elements_for
    from netweave.parallel.plan import ExchangeSettings
    from netweave.training import Note
    from netweave.training.memory import keep_memory
    from netweave.training.ranks import STAGES
    from netweave.training.trainer import KEPT, Trainer
    from netweave.training.watchers import Audience

    settings = ExchangeSettings(exchange, compression)
    found = job if isinstance(job, Job) else load_job(job)
    if weights:
        files = tuple(str(file) for file in weights)
        found = replace(found, checkpoints=replace(found.checkpoints, weights=files))
    with joined(device, timeout_s) as world, ThreadedEngine() as engine:
        first = world is None or world.is_first
        audience = Audience(watch)
        place = device or "cpu" if world is None else world.device
        if str(place) == "cpu":
            keep_memory()
        if world is not None and world.size > 1:
            if memory is not None:
                raise UsageError("a limit of memory is for one device; leave it out to train on several")
            meaning = batch_meaning(found, batch)
            found = with_batch(found, meaning, world.size)
            audience.show(Note(describe_batch(found, meaning, world)))
            slice_elements = slice_elements or slice_elements_for(world)
        trainer = Trainer(
            found,
            engine=engine,
            data=data,
            device=place,
            precision=precision,
            seed=seed,
            threads=threads,
            keep=keep or KEPT,
            resume=start_of(world, found, resume, audience.show),
            num_stages=num_stages or (1 if world is None else STAGES),
            slice_elements=slice_elements,
            memory=None if memory is None else parse_bytes(memory),
            world=world,
            exchange=settings,
            monitor=_monitor(monitor, found, memory),
            watch=audience.show,
        )
        try:
            if trace and first:  # the Job is good by now, so that what is overwritten is not lost for nothing
                engine.trace_to(Trace(Path(trace)))
            audience.add(
                trainer.history,
                events=Path(events) if events and first else None,
                plot=Path(plot) if plot and first else None,
            )
            with stopping(trainer):
                trainer.run()
        finally:
            trainer.close()
            audience.close()
    net: TorchNet = trainer.nets["train"]
    return net


def _monitor(wanted: Monitor | Sequence[str] | None, job: Job, memory: object) -> Monitor | Watched | None:
    if not wanted:
        return None
    if memory is not None:
        raise UsageError(
            "watched values are kept besides those that the memory plan knows of; leave out either memory or "
            "what is to be watched"
        )
    if isinstance(wanted, Monitor):
        return wanted
    return Watched(job.schedule.display_interval or 100, tuple(wanted))


def need_torch() -> None:
    """Check that torch is installed.

    Raises:
        UsageError: It is not installed; the message says what to do.
    """
    try:
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(
            "training needs torch, which is not installed; install it with: pip install 'netweave[torch]'"
        ) from error


@contextmanager
def stopping(trainer: Trainer) -> Iterator[None]:
    """Make the first Ctrl-C stop the run cleanly."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGINT, before)
        trainer.stop()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
