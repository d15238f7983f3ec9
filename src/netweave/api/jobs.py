"""Jobs and their ranks."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from netweave.errors import NetweaveError, PeerError, ReadError, UsageError
from netweave.installation import install_command
from netweave.runtime.backends.runner import TORCH
from netweave.training import Note, latest
from netweave.training.checkpoint_file import RESUME_IF_ANY, SUFFIX, last_generation, read_origin
from netweave.training.goodput import Goodput, read_goodput
from netweave.training.parallel.environment import RankEnvironment, rank_environment
from netweave.training.run_record import is_alive, process_birth

if TYPE_CHECKING:
    from netweave.job import Job
    from netweave.training.checkpoint_file import Origin
    from netweave.training.events import Watch
    from netweave.training.parallel.world import World
    from netweave.training.watchers import TrainOptions


# SINGA keeps such a register in ZooKeeper (``job_manager.cc``), for ``singa-console.sh``. Here it is a
# folder with one file for each job, on a machine or on a file system that several machines share.

FOLDER = "NETWEAVE_JOBS"
"""Variable that names another folder for the register, such as one that several machines share."""


OF_A_RANK = (
    "netweave.api.training",
    "netweave.training.trainer",
    "netweave.training.parallel.world",
    "netweave.training.cluster.part",
)
"""Modules that hold nearly all that a rank of a Job imports."""


def packages_to_install() -> str:
    """Return the packages that training with curves lacks, and how to install them; empty if none."""
    packages = [name for name in (TORCH, "tensorboard") if find_spec(name) is None]
    return f"{' and '.join(packages)}: {install_command(TORCH, 'curves')}" if packages else ""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job in the register.

    Attributes:
        id: Its number.
        name: The name of the Job.
        file: The file that it was read from.
        host: The machine that it runs on.
        pid: Its process there; of several ranks that of the first.
        started: When, in seconds since 1970.
        folder: The working folder.
        birth: When the kernel started the process, as it counts time; empty where it does not say.
        launcher: The process that starts the ranks again when one dies; 0 where there is none.
        prefix: Path that the names of its checkpoints start with, from the working folder.
    """

    id: int
    name: str
    file: str
    host: str
    pid: int
    started: float
    folder: str
    birth: str = ""
    launcher: int = 0
    prefix: str = ""

    @property
    def here(self) -> bool:
        """True if it runs on this machine."""
        return self.host == socket.gethostname()

    @property
    def goodput(self) -> Goodput | None:
        """Goodput of the run so far, over all its starts; None if nothing was noted."""
        return read_goodput(ledger_of(self.folder, self.prefix)) if self.prefix else None


def register_folder() -> Path:
    """Return the folder of the register."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get(FOLDER) or Path(state) / "netweave" / "jobs")


@contextlib.contextmanager
def registered(name: str, file: str, prefix: str = "") -> Iterator[RunningJob | None]:
    """Keep a job in the register while it runs in this process; None where the folder cannot be written.

    Args:
        name: The name of the Job.
        file: The file that it was read from.
        prefix: Path that the names of its checkpoints start with.
    """
    job = None
    with contextlib.suppress(OSError):  # a register that cannot be kept is no reason not to train
        job = _enter(name, file, prefix)
    try:
        yield job
    finally:
        if job is not None:
            _path(job.id).unlink(missing_ok=True)


def ledger_of(folder: str, prefix: str) -> Path:
    """Return the file in the register in which runs note where their time goes, by their checkpoints.

    Args:
        folder: The working folder; empty for that of this process.
        prefix: Path that the names of the checkpoints start with, from there.
    """
    place = hashlib.sha256(os.path.abspath(os.path.join(folder, prefix)).encode()).hexdigest()[:16]  # noqa: PTH100, PTH118 - as text, links unfollowed
    return register_folder() / "goodput" / f"{place}.json"


def list_jobs() -> list[RunningJob]:
    """Return the jobs that run, by number; those of this machine that have died are removed."""
    running = []
    for path in register_folder().glob("*.json"):
        job = _read(path)
        if job is None:
            continue
        if job.here and not is_alive(job.pid, job.birth):
            path.unlink(missing_ok=True)
            continue
        running.append(job)
    return sorted(running, key=lambda job: job.id)


def find_job(number: int) -> RunningJob:
    """Return a job.

    Raises:
        UsageError: There is no such job.
    """
    jobs = {job.id: job for job in list_jobs()}
    if number not in jobs:
        known = ", ".join(map(str, jobs)) or "none"
        raise UsageError(f"no job {number} is running; there are: {known}")
    return jobs[number]


def kill_job(number: int, *, at_once: bool = False) -> RunningJob:
    """Ask a job to write a checkpoint and stop; return it.

    Args:
        number: Of the job.
        at_once: Kill it instead, as SINGA does; what it did since its last checkpoint is lost.

    Raises:
        UsageError: There is no such job, it runs on another machine, or belongs to another user.
    """
    job = find_job(number)
    if not job.here:
        raise UsageError(f"job {number} runs on {job.host} (process {job.pid}); stop it there")
    try:
        if at_once and job.launcher:  # first: it would start the ranks again
            with contextlib.suppress(ProcessLookupError):
                os.kill(job.launcher, signal.SIGTERM)
        os.kill(job.pid, signal.SIGKILL if at_once else signal.SIGINT)
    except PermissionError as error:
        raise UsageError(f"job {number} (process {job.pid}) belongs to another user") from error
    if at_once:
        _path(number).unlink(missing_ok=True)
    return job


def _enter(name: str, file: str, prefix: str) -> RunningJob:
    folder = register_folder()
    folder.mkdir(parents=True, exist_ok=True)
    environment = rank_environment()
    # torchrun's agent holds the store, as Netweave's own launcher does, and is the parent of its ranks
    launcher = os.getppid() if environment is not None and environment.agent_holds_store else 0
    number = max((job.id for job in list_jobs()), default=-1) + 1
    while True:
        pid, host = os.getpid(), socket.gethostname()
        where = (str(Path.cwd()), process_birth(pid), launcher, prefix)
        job = RunningJob(number, name, file, host, pid, time.time(), *where)
        try:
            with _path(number).open("x") as entry:  # fails if another process has just taken the number
                json.dump(asdict(job), entry)
        except FileExistsError:
            number += 1
        else:
            return job


def _path(number: int) -> Path:
    return register_folder() / f"{number}.json"


def _read(path: Path) -> RunningJob | None:
    """Return the job of an entry; None while it is being written or after it was removed."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        content: dict[str, Any] = json.loads(path.read_text())
        return RunningJob(**content)
    return None


P = ParamSpec("P")
R = TypeVar("R")


CONNECT_S = 30.0
"""So long does it look for the store, which the first rank may hold and not have opened yet."""


def announce_early_failure(message: str) -> None:
    """Tell the other ranks why this process fails; do nothing if it has joined them, or is no rank.

    They would wait for it until the timeout.

    Args:
        message: The error.
    """
    try:
        environment = rank_environment()
    except UsageError:  # nobody can be reached by such an environment
        return
    if environment is None or environment.size == 1:
        return
    with contextlib.suppress(PeerError, ImportError):
        from netweave.training.parallel.world import RankStore  # torch, which may be what is missing

        if RankStore.num_joined:
            return
        store = RankStore(environment, timeout_s=CONNECT_S)
        store.announce_failure(message)
        store.leave()


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
def joined(options: TrainOptions) -> Iterator[World | None]:
    """Join the ranks that the environment speaks of; give None if this process runs alone.

    A process that computes shards alone is a rank of one: it does all that several do.
    """
    environment = rank_environment()
    if environment is None and options.same_bits is None:
        yield None
        return
    from netweave.training.parallel.launcher import store_on_loopback
    from netweave.training.parallel.world import TIMEOUT_S, join

    with contextlib.ExitStack() as stack:
        if environment is None:
            port = stack.enter_context(store_on_loopback()).port
            environment = RankEnvironment(0, 1, 0, True, "127.0.0.1", port, True)
        world = join(environment, device=options.device, timeout_s=options.timeout_s or TIMEOUT_S)
        assert world is not None
        yield stack.enter_context(world)


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

    In a cluster all groups go on from what the first one has written.

    Raises:
        UsageError: There is none where one is asked for.
    """
    if world is None:
        return _asked(job, resume, watch)
    part = world.part
    if part is not None and not part.is_first:
        return part.share_start(None)
    start, run, generation = world.keep(lambda: _beginning(job, resume, world.run, watch), "beginning")
    if world.is_first and world.is_restart:
        start = _own(job, run, generation, watch) or start
    shared = world.share(start, "start")
    path = Path(shared) if shared else None
    return path if part is None else part.share_start(path)


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
    from netweave.training.parallel.batch import (
        batch_meaning,
        describe_batch,
        describe_micro_batches,
        describe_shards,
        with_batch,
    )
    from netweave.training.parallel.network import slice_elements_for

    shards, parts = options.same_bits, options.micro_batches
    if parts is not None:
        job = with_batch(job, options.batch or "split", world.size)
        watch(Note(describe_micro_batches(job, parts, options.pipeline, world)))
        return job, options
    meaning = batch_meaning(job, options.batch if shards is None else options.batch or "split")
    job = with_batch(job, meaning, world.size if shards is None else shards)
    if shards is not None:
        watch(Note(describe_shards(job, shards, world)))
        return job, options
    watch(Note(describe_batch(job, meaning, world)))
    has_owners = options.exchange_settings.has_owners
    chosen = options.slice_elements or slice_elements_for(world, has_owners=has_owners)
    return job, replace(options, slice_elements=chosen)


def launch(
    command: Sequence[str],
    devices: Sequence[str],
    *,
    restarts: int,
    grace_s: float,
    stop_signal: str,
    tell: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command once for each device of this machine, as ranks of one run; return its exit status.

    Args:
        command: What each rank runs.
        devices: The device of each rank, as torch names it.
        restarts: How often all ranks are started again after one died.
        grace_s: Seconds to end in, when the machine is taken away.
        stop_signal: Name of a signal that says so, besides SIGTERM.
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
    settings = (restarts, tell, dict(environment or {}), grace_s, stop_signal)
    return Launcher(command, devices, *settings, preload=OF_A_RANK).run()


def _asked(job: Job, resume: str | Path | bool, watch: Watch) -> Path | None:
    if not isinstance(resume, bool) and resume != RESUME_IF_ANY:
        return Path(resume)
    if not resume:
        return None
    latest_checkpoint = _latest(job, watch)
    if latest_checkpoint is None and resume != RESUME_IF_ANY:
        raise UsageError(
            f"{job.name}: there is no checkpoint {job.checkpoints.prefix}_iter_*.checkpoint to resume from"
        )
    return latest_checkpoint


def _own(job: Job, run: str, generation: int, watch: Watch) -> str | None:
    """Return the latest checkpoint that a run has written since it began; None if none is whole."""
    try:
        latest_checkpoint = _latest(
            job, watch, lambda origin: origin.run == run and origin.generation > generation
        )
    except ReadError:  # said already; the run begins again as it did at first
        latest_checkpoint = None
    if latest_checkpoint is None:
        watch(Note("this run has no complete checkpoint yet; starting again from its beginning"))
    return str(latest_checkpoint) if latest_checkpoint else None


def _latest(job: Job, watch: Watch, accepts: Callable[[Origin], bool] = lambda origin: True) -> Path | None:
    newest = latest(job.checkpoints.prefix, lambda text: watch(Note(text)), accepts)
    if newest is None:
        return None
    watch(Note(f"resuming from {newest[0]}"))
    return newest[0]
