"""The register of jobs that are being trained: which there are, where they run, and stopping one.

SINGA keeps such a register in ZooKeeper (``job_manager.cc``), for ``singa-console.sh``. Here it is a folder
with one file for each job, on a machine or on a file system that several machines share.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.training.parallel.environment import rank_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "NETWEAVE_JOBS"
"""Variable that names another folder for the register, such as one that several machines share."""


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

    @property
    def here(self) -> bool:
        """True if it runs on this machine."""
        return self.host == socket.gethostname()


def register_folder() -> Path:
    """Return the folder of the register."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(os.environ.get(FOLDER) or Path(state) / "netweave" / "jobs")


@contextlib.contextmanager
def registered(name: str, file: str) -> Iterator[RunningJob | None]:
    """Keep a job in the register while it runs in this process; None where the folder cannot be written.

    Args:
        name: The name of the Job.
        file: The file that it was read from.
    """
    job = None
    with contextlib.suppress(OSError):  # a register that cannot be kept is no reason not to train
        job = _enter(name, file)
    try:
        yield job
    finally:
        if job is not None:
            _path(job.id).unlink(missing_ok=True)


def list_jobs() -> list[RunningJob]:
    """Return the jobs that run, by number; those of this machine that have died are removed."""
    found = []
    for path in register_folder().glob("*.json"):
        job = _read(path)
        if job is None:
            continue
        if job.here and not _alive(job):
            path.unlink(missing_ok=True)
            continue
        found.append(job)
    return sorted(found, key=lambda job: job.id)


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


def _enter(name: str, file: str) -> RunningJob:
    folder = register_folder()
    folder.mkdir(parents=True, exist_ok=True)
    environment = rank_environment()
    # torchrun's agent holds the store, as Netweave's own launcher does, and is the parent of its ranks
    launcher = os.getppid() if environment is not None and environment.agent_holds_store else 0
    number = max((job.id for job in list_jobs()), default=-1) + 1
    while True:
        pid, host = os.getpid(), socket.gethostname()
        job = RunningJob(
            number, name, file, host, pid, time.time(), str(Path.cwd()), process_birth(pid), launcher
        )
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


def _alive(job: RunningJob) -> bool:
    """Return whether the process of a local job still runs, and its number was not reused."""
    try:
        os.kill(job.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        pass
    return not job.birth or process_birth(job.pid) == job.birth


def process_birth(pid: int) -> str:
    """Return when the kernel started a process, with the start of the system.

    Empty where the kernel does not say, or there is no such process. With it a process is known again though
    numbers of processes are used again.
    """
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # the name of the program stands in brackets and may hold blanks; the 20th field after it is the time
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return f"{boot} {fields[19]}"
    return ""
