"""The record of a run beside its event files: its process, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from netweave.errors import WriteError
from netweave.files.output_files import write_file
from netweave.training.events import Event, Stopped, Watch
from netweave.training.goodput import Goodput, read_goodput

RUN_RECORD = "netweave-run.json"
"""Name of the record in the folder of the event files."""

_ENDED = {"Z", "X"}
"""States of processes that have ended and that nobody has waited for."""


class RunState(StrEnum):
    """State of a run, from its process and from its end; the age of its files says nothing of it."""

    RUNNING = "running"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a run notes of itself.

    Attributes:
        host: The machine that it runs on.
        pid: Its process there; of several ranks that of the first.
        birth: When the kernel started the process; empty where it does not say.
        started: When the run began, in seconds since 1970.
        end: The state that it ended in; None while it runs, or if it was killed.
        reason: Why it failed, in words.
        ledger: The file in which it notes where its time goes; empty where it does not.
    """

    host: str
    pid: int
    birth: str
    started: float
    end: str | None = None
    reason: str = ""
    ledger: str = ""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """State of a run, with the reason in words where it did not end well."""

    state: RunState
    reason: str = ""

    @property
    def is_running(self) -> bool:
        """True while its process runs."""
        return self.state is RunState.RUNNING


@contextlib.contextmanager
def recorded(folder: Path | None, *, ledger: str | Path | None = None) -> Iterator[Watch]:
    """Keep the record of a run in a folder, and yield what takes in the events of the run.

    Args:
        folder: The folder of its event files; None for a run without them, which has no record.
        ledger: The file in which it notes where its time goes; None where it does not.

    Raises:
        WriteError: The record cannot be written when the run begins.
    """
    if folder is None:
        yield lambda event: None
        return
    pid = os.getpid()
    record = RunRecord(
        host=socket.gethostname(),
        pid=pid,
        birth=process_birth(pid),
        started=time.time(),
        ledger=str(Path(ledger).absolute()) if ledger is not None else "",
    )
    is_stopped = False

    def watch(event: Event) -> None:
        nonlocal is_stopped
        is_stopped |= isinstance(event, Stopped)

    _write(folder, record)
    try:
        yield watch
    except BaseException as error:
        if is_stopped or isinstance(error, KeyboardInterrupt | SystemExit):
            ended = replace(record, end=RunState.STOPPED)
        else:
            ended = replace(record, end=RunState.FAILED, reason=str(error) or type(error).__name__)
        with contextlib.suppress(WriteError):  # the error that ended the run is the one to tell
            _write(folder, ended)
        raise
    _write(folder, replace(record, end=RunState.STOPPED if is_stopped else RunState.FINISHED))


def read_record(folder: str | Path) -> RunRecord | None:
    """Return the record of a run; None if it has none, or none that can be read."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        content: dict[str, Any] = json.loads((Path(folder) / RUN_RECORD).read_text(encoding="utf-8"))
        return RunRecord(**content)
    return None


def run_status(folder: str | Path) -> RunStatus:
    """Return the state of the run in a folder of event files.

    It is unknown for a run of another program, and for one without an end on a machine whose processes this
    one cannot see.
    """
    record = read_record(folder)
    if record is None:
        return RunStatus(RunState.UNKNOWN)
    if record.end is not None:
        return RunStatus(RunState(record.end), record.reason)
    if record.host != socket.gethostname():
        return RunStatus(RunState.UNKNOWN, f"it was started on {record.host}")
    if is_alive(record.pid, record.birth):
        return RunStatus(RunState.RUNNING)
    return RunStatus(RunState.LOST, f"process {record.pid} is gone and noted no end; it was probably killed")


def run_goodput(folder: str | Path) -> Goodput | None:
    """Return where the time of the run in a folder of event files went; None if nobody has noted it."""
    record = read_record(folder)
    return read_goodput(Path(record.ledger)) if record is not None and record.ledger else None


def is_alive(pid: int, birth: str) -> bool:
    """Return whether a process of this machine still runs, and its number was not reused."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, as another user
        pass
    return not birth or process_birth(pid) == birth


def process_birth(pid: int) -> str:
    """Return when the kernel started a process, with the start of the system.

    Empty where the kernel does not say, or there is no such process any more. With it a process is known
    again though numbers of processes are used again.
    """
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        # the name of the program stands in brackets and may hold blanks; the 20th field after it is the time
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in _ENDED else f"{boot} {fields[19]}"
    return ""


def _write(folder: Path, record: RunRecord) -> None:
    write_file(folder / RUN_RECORD, json.dumps(asdict(record)))
