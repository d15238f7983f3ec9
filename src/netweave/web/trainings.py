"""Trainings that are started from the page: an uploaded solver, on data of the server's own.

Each is ``netweave train`` in a folder of its own below the folder of runs, in a process that outlives the
server. Solvers name paths; bubblewrap sees to it that none leads anywhere but to the run's folder and, to be
read, to the data that was chosen, which is its folder ``data``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

import netweave
from netweave import api
from netweave.api import RunState, RunStatus
from netweave.api.jobs import packages_to_install
from netweave.web.nets import RefusedError
from netweave.web.options import Options
from netweave.web.safety import safe_name

RECORD = "training.json"
"""In the folder of a run that was started here: what runs, or ran."""

STATUS = "process.json"
"""What the sandbox notes of the process: its number, and at the end its exit status."""

LOG = "train.log"

DATA = "data"
"""What the chosen data is called in the folder of a run."""

MAX_FILES, MAX_FILE_BYTES = 16, 4 << 20
"""Of solver and nets, which are text."""

MAX_LOG_BYTES = 8192

SIGNALLED = 128
"""Exit statuses above are the numbers of signals."""

ERROR = "netweave: "
"""What a line of the command line begins with that tells an error."""

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
"""Where programs and libraries of the system lie."""

_NAME = re.compile(r"\w[\w. -]{0,79}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A training that was started here.

    Attributes:
        solver: Name of its solver in its folder.
        data: The data that was chosen, relative to the operator's folder.
        pid: Its process.
        birth: When the kernel started the process.
        sandbox: The process that waits for it, and notes its exit status.
        sandbox_birth: When the kernel started that.
    """

    solver: str
    data: str
    pid: int
    birth: str
    sandbox: int = 0
    sandbox_birth: str = ""

    @property
    def is_running(self) -> bool:
        """True if it runs, or its exit status is not noted yet; the numbers may be those of others by now."""
        processes = ((self.pid, self.birth), (self.sandbox, self.sandbox_birth))
        return any(birth and api.is_alive(pid, birth) for pid, birth in processes)


def data_folders() -> list[str]:
    """Return the data that can be chosen: the folders of the operator's folder, itself the first."""
    root = _root()
    inner = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [".", *inner]


def missing() -> str:
    """Return what is missing to train here, in words; empty if nothing is."""
    if lacking := packages_to_install():
        return f"training needs {lacking}"
    if shutil.which("bwrap") is None:
        return "training needs bubblewrap (bwrap), which keeps it to its folders"
    return ""


def start(name: str, solver: str, files: Mapping[str, bytes], data: str) -> str:
    """Start a training; return the name of the run.

    Args:
        name: What to call the run.
        solver: Which of the files is the solver.
        files: Solver and nets by name.
        data: One of ``data_folders``.

    Raises:
        RefusedError: The name is taken or unfit, a file is too large, or something is missing.
    """
    if reason := missing():
        raise RefusedError(reason)
    if not _NAME.fullmatch(name):
        raise RefusedError("the name of a run has letters, digits, blanks, '.', '_' and '-', at most 80")
    if data not in data_folders():
        raise RefusedError(f"there is no data {data!r} here")
    if len(files) > MAX_FILES or any(len(content) > MAX_FILE_BYTES for content in files.values()):
        raise RefusedError(f"at most {MAX_FILES} files of {MAX_FILE_BYTES >> 20} MiB each")
    safe = {safe_name(file): content for file, content in files.items()}
    if len(safe) < len(files) or {DATA, RECORD, LOG, STATUS, api.RUN_RECORD} & safe.keys():
        raise RefusedError("two files have the same name, or the name of a file that the workbench writes")
    _check_free()
    folder = _runs() / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise RefusedError(f"there is a run {name!r} already; choose another name") from None
    try:
        for file, content in safe.items():
            (folder / file).write_bytes(content)
        _launch(folder, safe_name(solver), data, resumes=False)
    except BaseException:  # a full disk, a sandbox that does not start: the name is free again
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return name


def stop(name: str) -> None:
    """Have a training write a checkpoint and end; one that has ended stays as it is."""
    training = find(name)
    if training is not None and training.is_running:
        with suppress(ProcessLookupError):
            os.kill(training.pid, signal.SIGINT)


def resume(name: str) -> None:
    """Go on from the latest complete checkpoint.

    Raises:
        RefusedError: It was not started here, it cannot be continued, or too many run.
    """
    training = find(name)
    if training is None:
        raise RefusedError("this run was not started here; 'netweave train --resume' continues it")
    if reason := reason_not_to_continue(name):
        raise RefusedError(reason)
    if reason := missing():
        raise RefusedError(reason)
    _check_free()
    _launch(_runs() / name, training.solver, training.data, resumes=True)


def find(name: str) -> Training | None:
    """Return the training of a run; None if it was not started here."""
    with suppress(OSError, ValueError, TypeError):
        return Training(**json.loads((_runs() / name / RECORD).read_text(encoding="utf-8")))
    return None


def status(name: str) -> RunStatus:
    """Return the state of a run, whether it was started here or not."""
    folder = _runs() / name
    training = find(name)
    if training is None:
        return api.run_status(folder)
    if training.is_running:
        return RunStatus(RunState.RUNNING)
    exit_status = _exit_status(folder)
    if exit_status is None:
        return RunStatus(
            RunState.LOST, "its process is gone and has no exit status; the machine may have been restarted"
        )
    noted = api.run_status(folder)
    if noted.state in {RunState.FINISHED, RunState.STOPPED, RunState.FAILED}:
        return noted
    if exit_status == 0:
        return RunStatus(RunState.FINISHED)
    if exit_status > SIGNALLED:
        killed = f"it was killed ({_signal_name(exit_status - SIGNALLED)})"
        return RunStatus(RunState.FAILED, killed)
    return RunStatus(RunState.FAILED, _error(name) or f"it ended with the exit status {exit_status}")


def reason_not_to_continue(name: str) -> str:
    """Return why a training that was started here cannot be continued; empty if it can."""
    state = status(name).state
    if state is RunState.RUNNING:
        return "this training still runs"
    if state is RunState.FINISHED:
        return "this training has reached its last iteration"
    if not any(found.can_be_resumed for found in api.find_checkpoints(_runs() / name)):
        return "this training has written no checkpoint to continue from; start it again"
    return ""


def started_runs() -> dict[str, float]:
    """Return the runs that were started here, with the last change of each; they may have no events yet."""
    records = _runs().glob(f"*/{RECORD}")
    return {record.parent.name: record.stat().st_mtime for record in records}


def last_words(name: str) -> str:
    """Return the end of what a training printed."""
    with suppress(OSError):
        return (_runs() / name / LOG).read_bytes()[-MAX_LOG_BYTES:].decode("utf-8", "replace").strip()
    return ""


def _exit_status(folder: Path) -> int | None:
    """Return the exit status of a training that was started here; None if nobody saw it end."""
    with suppress(OSError, ValueError, TypeError):
        for line in (folder / STATUS).read_text(encoding="utf-8").splitlines():
            if (found := json.loads(line).get("exit-code")) is not None:
                return int(found)
    return None


def _signal_name(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"


def _error(name: str) -> str:
    """Return the error that a training printed last."""
    lines = [line for line in last_words(name).splitlines() if line.startswith(ERROR)]
    return lines[-1].removeprefix(ERROR) if lines else ""


def _root() -> Path:
    return Path(_options().training).expanduser().resolve()


def _runs() -> Path:
    return Path(_options().runs).expanduser().resolve()


def _options() -> Options:
    options: Options = settings.OPTIONS
    return options


def _check_free() -> None:
    running = [name for name in started_runs() if (found := find(name)) is not None and found.is_running]
    if len(running) >= _options().max_trainings:
        raise RefusedError(
            f"{', '.join(running)} still runs, and {_options().max_trainings} at the same time are allowed"
        )


def _launch(folder: Path, solver: str, data: str, *, resumes: bool) -> None:
    """Start the process, and note it once the guard says what it is."""
    (folder / DATA).mkdir(exist_ok=True)
    (folder / api.RUN_RECORD).unlink(missing_ok=True)
    read_end, write_end = os.pipe()
    command = [sys.executable, "-m", "netweave", "train", solver, "--events", "."]
    with (folder / LOG).open("ab") as log, (folder / STATUS).open("wb") as status_file:
        guard = _guard(folder, _root() / data, info=write_end, status=status_file.fileno())
        process = subprocess.Popen(
            [*guard, *command, *(["--resume"] if resumes else [])],
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives the server, and Ctrl-C does not reach it
            pass_fds=(write_end, status_file.fileno()),
        )
    sandbox_birth = api.process_birth(process.pid)  # it cannot have been waited for yet
    threading.Thread(target=process.wait, daemon=True).start()  # so that its entry goes when it ends
    os.close(write_end)
    with os.fdopen(read_end) as info:
        said = info.read()
    if not said:
        raise RefusedError(f"the sandbox did not start: {last_words(folder.name)}")
    pid = int(json.loads(said)["child-pid"])
    training = Training(
        solver=solver,
        data=data,
        pid=pid,
        birth=api.process_birth(pid),
        sandbox=process.pid,
        sandbox_birth=sandbox_birth,
    )
    (folder / RECORD).write_text(json.dumps(asdict(training)), encoding="utf-8")


def _guard(folder: Path, data: Path, *, info: int, status: int) -> list[str]:
    readable = [*SYSTEM, sys.prefix, sys.base_prefix, str(Path(netweave.__file__).parent.parent)]
    readable += site.getsitepackages()
    alone = ["net", "ipc", "uts", "pid"]
    return [
        *("bwrap", "--as-pid-1", "--new-session", *(f"--unshare-{name}" for name in alone)),
        *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"),
        *(part for path in dict.fromkeys(readable) for part in ("--ro-bind-try", path, path)),
        *("--bind", str(folder), str(folder), "--ro-bind", str(data), str(folder / DATA)),
        *("--chdir", str(folder), "--info-fd", str(info)),
        *("--json-status-fd", str(status), "--"),  # the sandbox outlives the server, and writes it itself
    ]


def _environment(folder: Path) -> dict[str, str]:
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(Path(netweave.__file__).parent.parent),
        "PYTHONUNBUFFERED": "1",
        "NETWEAVE_JOBS": str(folder / ".jobs"),
    }
