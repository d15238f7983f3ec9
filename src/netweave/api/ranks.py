"""Runs of several ranks: joining them, what they begin from, and starting them on this machine."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from netweave.errors import NetweaveError, PeerError, ReadError, UsageError
from netweave.training import Note, latest
from netweave.training.checkpoint_file import SUFFIX, last_generation, read_origin
from netweave.training.parallel.early_failure import announce_early_failure
from netweave.training.parallel.environment import rank_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from netweave.job import Job
    from netweave.training.checkpoint_file import Origin
    from netweave.training.events import Watch
    from netweave.training.options import TrainOptions
    from netweave.training.parallel.world import World

P = ParamSpec("P")
R = TypeVar("R")


def announcing_early_failure(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that trains tell the other ranks of an error that comes before this one has joined."""

    @functools.wraps(function)
    def announced(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NetweaveError as error:
            if not isinstance(error, PeerError):
                announce_early_failure(str(error))
            raise

    return announced


@contextlib.contextmanager
def joined(device: str | None, timeout_s: float | None) -> Iterator[World | None]:
    """Join the ranks that the environment speaks of; give None if this process runs alone."""
    if rank_environment() is None:
        yield None
        return
    from netweave.training.parallel.world import TIMEOUT_S, join

    world = join(device=device, timeout_s=timeout_s or TIMEOUT_S)
    assert world is not None
    with world:
        yield world


@contextlib.contextmanager
def traced(world: World | None, trace: str | Path | None) -> Iterator[None]:
    """Join the timelines of all ranks after a run that went well; each is written when its engine closes."""
    yield
    if world is not None and world.size > 1 and trace:
        from netweave.training.parallel.timeline import join_traces

        join_traces(world, Path(trace))


def start_of(world: World | None, job: Job, resume: str | Path | bool, watch: Watch) -> Path | None:
    """Return the checkpoint to go on from: the same on all ranks, chosen by the first.

    Ranks that were started again go on from what this run has written itself, and begin as they were told to
    where it has written nothing: the same folder may hold checkpoints of earlier runs.

    Raises:
        UsageError: There is none where one is asked for.
    """
    if world is None:
        return _asked(job, resume, watch)
    start, run, generation = world.keep(lambda: _beginning(job, resume, world.run, watch), "beginning")
    if world.is_first and world.attempt:
        start = _own(job, run, generation, watch) or start
    shared = world.share(start, "start")
    return Path(shared) if shared else None


def _beginning(job: Job, resume: str | Path | bool, run: str, watch: Watch) -> tuple[str | None, str, int]:
    """Return the checkpoint that a run begins from, the run's name, and the last generation before it.

    By these a restart tells what the run has written itself from what was there already.
    """
    start = _asked(job, resume, watch)
    if start and start.suffix == SUFFIX:
        run = read_origin(start).run or run
    return str(start) if start else None, run, last_generation(job.checkpoints.prefix)


def device_of_rank(devices: Sequence[str]) -> str | None:
    """Return the device of this process; None where whoever started it says so, or nobody does."""
    environment = rank_environment()
    if environment is None:
        return devices[0]
    return devices[environment.local_rank] if environment.local_rank < len(devices) > 1 else None


def shared(job: Job, options: TrainOptions, world: World, watch: Watch) -> tuple[Job, TrainOptions]:
    """Return a Job with the size of the whole batch, and options that fit the link; say what the batch is.

    Raises:
        UsageError: There is no such meaning of the batch.
    """
    from netweave.training.parallel.batch import batch_meaning, describe_batch, with_batch
    from netweave.training.parallel.link_speed import slice_elements_for

    meaning = batch_meaning(job, options.batch)
    job = with_batch(job, meaning, world.size)
    watch(Note(describe_batch(job, meaning, world)))
    has_owners = options.exchange_settings.has_owners
    chosen = options.slice_elements or slice_elements_for(world, has_owners=has_owners)
    return job, replace(options, slice_elements=chosen)


def launch(
    command: Sequence[str],
    devices: Sequence[str],
    *,
    restarts: int,
    tell: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command once for each device of this machine, as ranks of one run; return its exit status.

    Args:
        command: What each rank runs.
        devices: The device of each rank, as torch names it.
        restarts: How often all ranks are started again after one died.
        tell: Told of restarts.
        environment: Variables of the ranks besides those of this process.

    Raises:
        UsageError: A device is not there.
        RunError: Ranks failed for good; the message names rank and cause.
    """
    from netweave.training.parallel.launcher import Launcher

    if any(device != "cpu" for device in devices):
        from netweave.runtime.backends.torch.device import find_device

        for device in devices:
            find_device(device)
    return Launcher(command, devices, restarts, tell, dict(environment or {})).run()


def _asked(job: Job, resume: str | Path | bool, watch: Watch) -> Path | None:
    if not isinstance(resume, bool):
        return Path(resume)
    if not resume:
        return None
    found = _latest(job, watch)
    if found is None:
        raise UsageError(
            f"{job.name}: there is no checkpoint {job.checkpoints.prefix}_iter_*.checkpoint to resume from"
        )
    return found


def _own(job: Job, run: str, generation: int, watch: Watch) -> str | None:
    """Return the latest checkpoint that a run has written since it began; None if none is whole."""
    try:
        found = _latest(job, watch, lambda origin: origin.run == run and origin.generation > generation)
    except ReadError:  # said already; the run begins again as it did at first
        found = None
    if found is None:
        watch(Note("this run has no complete checkpoint yet; starting again from its beginning"))
    return str(found) if found else None


def _latest(job: Job, watch: Watch, accepts: Callable[[Origin], bool] = lambda origin: True) -> Path | None:
    found = latest(job.checkpoints.prefix, lambda text: watch(Note(text)), accepts)
    if found is None:
        return None
    watch(Note(f"resuming from {found[0]}"))
    return found[0]
