"""A run of a Job in this process, alone or as one of several ranks."""

from __future__ import annotations

import importlib
import signal
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.api.ranks import joined, shared, start_of, traced
from netweave.errors import UsageError
from netweave.installation import install_command
from netweave.runtime.engine import ThreadedEngine, Trace
from netweave.training.monitor import Monitor, ValueWatch, Watched

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Engine
    from netweave.training.events import Watch
    from netweave.training.monitor import Look
    from netweave.training.options import TrainOptions
    from netweave.training.trainer import Trainer
    from netweave.training.watchers import Audience


def train_here(job: Job, options: TrainOptions, watch: Watch) -> TorchNet:
    """Train in this process, alone or as one of several ranks; see ``train``."""
    from netweave.training.memory import keep_memory
    from netweave.training.ranks import stages_for
    from netweave.training.trainer import Trainer
    from netweave.training.watchers import Audience

    with (
        joined(options.device, options.timeout_s) as world,
        traced(world, options.trace),
        ThreadedEngine() as engine,
    ):
        audience = Audience(watch)
        place = options.device or "cpu" if world is None else world.device
        if str(place) == "cpu":
            keep_memory()
        if world is not None and world.size > 1:
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
            _show_to(audience, trainer, engine, options, rank=0 if world is None else world.rank)
            with stopping(trainer):
                trainer.run()
        finally:
            trainer.close()
            audience.close()
    net: TorchNet = trainer.nets["train"]
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

        engine.trace_to(Trace(trace_path(Path(options.trace), rank)))
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
        importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UsageError(
            f"training needs torch, which is not installed; install it with: {install_command('torch')}"
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
