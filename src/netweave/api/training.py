"""Jobs from files, and running them."""

from __future__ import annotations

import importlib
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.data.probe import probe
from netweave.engine import ThreadedEngine, Trace
from netweave.errors import UsageError
from netweave.files import is_file
from netweave.formats.caffe.solver import read_solver
from netweave.formats.singa import is_job, read_job
from netweave.job import Job

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
    """Read how to train: Caffe's ``solver.prototxt``, with the nets that it names, or SINGA's ``job.conf``.

    Args:
        solver: The file. A ``job.conf`` is read whole; it cannot be trained yet.
        input_shapes: Sizes of inputs by name, batch size first; those of the data are found by opening it.
        data: By phase (``train``, ``test``), where its records are, instead of what its net names.
        stages: Stages that all nets are in, besides those that the file says.
        level: Level that all nets are at, if not 0.

    Raises:
        SourceError: The solver, a net or data cannot be read, or they do not fit together.
        UsageError: ``data`` names a phase that there is not, or one without such records.
    """
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    paths = {phase: str(path) for phase, path in (data or {}).items()}
    if is_file(Path(solver)) and is_job(Path(solver)):
        if paths:
            raise UsageError(
                f"{solver}: a job.conf says itself where its records are, data is for a solver's nets"
            )
        return read_job(Path(solver), input_shapes=shapes)
    return read_solver(
        Path(solver), probe=probe, input_shapes=shapes, data=paths, stages=tuple(stages), level=level
    )


def train(
    job: Job | str | Path,
    *,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    resume: str | Path | bool = False,
    weights: Sequence[str | Path] = (),
    device: str = "cpu",
    precision: str = "f32",
    seed: int | None = None,
    threads: int | None = None,
    trace: str | Path | None = None,
    events: str | Path | None = None,
    plot: str | Path | None = None,
    keep: int | None = None,
    num_stages: int = 1,
    watch: Watch | None = None,
) -> TorchNet:
    """Train, and return the net with what it has learnt.

    Ctrl-C writes a checkpoint and stops after the present iteration; once more stops at once.

    Args:
        job: A Job, or a file as for ``load_job``.
        data: By phase (``train``, ``test``), arrays of all records by input, instead of what the Job names.
        resume: A checkpoint, or Caffe's ``.solverstate``, to go on from; True for the latest that is whole.
        weights: Files of weights to start from, instead of the Job's.
        device: Where to compute, as torch names it.
        precision: ``f32``, or ``bf16`` for convolutions and matrix products in bfloat16; parameters, their
            updates and losses stay in float32.
        seed: Instead of the Job's.
        threads: Of decoding; None to find the number by itself.
        trace: A file for the timeline, in Chrome's trace format.
        events: A folder for event files of TensorBoard's.
        plot: A file for a picture of the curves of loss, tests and learning rate, from the beginning of the
            run also where it goes on.
        keep: How many of Netweave's own checkpoints are kept, >= 1; the last three if nothing is said.
        num_stages: Stages that the net is cut into, each with tasks of its own; any number ends with the same
            bits.
        watch: Told what happens: an event of ``netweave.training.events`` at a time.

    Raises:
        SourceError: A file cannot be read, or files do not fit together.
        UsageError: Torch is not installed, there is no such device, or the Job cannot be carried out.
        RunError: The loss is no number any more, or a checkpoint cannot be written.
    """
    need_torch()
    from netweave.training.memory import keep_memory
    from netweave.training.trainer import KEPT, Trainer
    from netweave.training.watchers import Audience

    found = job if isinstance(job, Job) else load_job(job)
    if weights:
        files = tuple(str(file) for file in weights)
        found = replace(found, checkpoints=replace(found.checkpoints, weights=files))
    audience = Audience(watch)
    from_file = _latest(found, audience.show) if isinstance(resume, bool) and resume else resume
    if device == "cpu":
        keep_memory()
    with ThreadedEngine() as engine:
        trainer = Trainer(
            found,
            engine=engine,
            data=data,
            device=device,
            precision=precision,
            seed=seed,
            threads=threads,
            keep=keep or KEPT,
            resume=Path(from_file) if from_file else None,
            num_stages=num_stages,
            watch=audience.show,
        )
        try:
            if trace:  # the Job is good by now, so that what is overwritten is not lost for nothing
                engine.trace_to(Trace(Path(trace)))
            audience.add(
                trainer.history,
                events=Path(events) if events else None,
                plot=Path(plot) if plot else None,
            )
            with stopping(trainer):
                trainer.run()
        finally:
            trainer.close()
            audience.close()
    net: TorchNet = trainer.nets["train"]
    return net


def need_torch() -> None:
    """Refuse to go on without torch.

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


def _latest(job: Job, watch: Watch) -> Path:
    from netweave.training import Note, latest

    found = latest(job.checkpoints.prefix, lambda text: watch(Note(text)))
    if found is None:
        raise UsageError(
            f"{job.name}: there is no checkpoint {job.checkpoints.prefix}_iter_*.checkpoint to go on from"
        )
    watch(Note(f"going on from {found[0]}"))
    return found[0]


@contextmanager
def stopping(trainer: Trainer) -> Iterator[None]:
    """Let Ctrl-C stop the run cleanly, the first time."""
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
