"""Runs of several ranks: joining them, what they begin from, and starting them on this machine."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from netweave.job import Job
    from netweave.parallel.world import World
    from netweave.training.events import Watch


@contextlib.contextmanager
def joined(device: str | None, timeout_s: float | None) -> Iterator[World | None]:
    """Join the ranks that the environment speaks of; give None if this process runs alone."""
    from netweave.parallel.environment import rank_environment

    if rank_environment() is None:
        yield None
        return
    from netweave.parallel.world import TIMEOUT_S, join

    world = join(device=device, timeout_s=timeout_s or TIMEOUT_S)
    assert world is not None
    with world:
        yield world


def start_of(world: World | None, job: Job, resume: str | Path | bool, watch: Watch) -> Path | None:
    """Return the checkpoint to go on from: the same on all ranks, chosen by the first.

    Ranks that were started again go on from what this run has written itself, and begin as they were told to
    where it has written nothing: the same folder may hold checkpoints of earlier runs.

    Raises:
        UsageError: There is none where one is asked for.
    """
    if world is None:
        return _asked(job, resume, watch)
    found = None
    if world.is_first:
        own = _of_run(job, world.run, watch) if world.attempt else None
        found = own or _asked(job, resume, watch)
    shared = world.share(str(found) if found else None, "start")
    return Path(shared) if shared else None


def launch(
    command: Sequence[str], devices: Sequence[str], *, restarts: int, tell: Callable[[str], None]
) -> int:
    """Run a command once for each device of this machine, as ranks of one run; return its exit status.

    Args:
        command: What each rank runs.
        devices: The device of each rank, as torch names it.
        restarts: How often all ranks are started again after one died.
        tell: Told of restarts.

    Raises:
        UsageError: A device is not there.
        RunError: Ranks failed for good; the message names rank and cause.
    """
    from netweave.parallel.launcher import Launcher

    if any(device != "cpu" for device in devices):
        from netweave.backends.torch.device import find_device

        for device in devices:
            find_device(device)
    return Launcher(command, devices, restarts, tell).run()


def _asked(job: Job, resume: str | Path | bool, watch: Watch) -> Path | None:
    if not isinstance(resume, bool):
        return Path(resume)
    if not resume:
        return None
    found = _latest(job, watch, lambda state: True)
    if found is None:
        raise UsageError(
            f"{job.name}: there is no checkpoint {job.checkpoints.prefix}_iter_*.checkpoint to resume from"
        )
    return found


def _of_run(job: Job, run: str, watch: Watch) -> Path | None:
    return _latest(job, watch, lambda state: state.get("run") == run)


def _latest(job: Job, watch: Watch, accepts: Callable[[Mapping[str, Any]], bool]) -> Path | None:
    from netweave.training import Note, latest

    found = latest(job.checkpoints.prefix, lambda text: watch(Note(text)), accepts)
    if found is None:
        return None
    watch(Note(f"resuming from {found[0]}"))
    return found[0]
