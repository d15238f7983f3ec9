"""Runs each command that writes on full disks and kills it at random moments; says what is there afterwards.

``python -m benchmarks disks --cases 100 [--command pack] [--json FILE]`` needs root, to mount disks.

Every other kill is aimed at a write: it waits for one to begin, which the folder of unfinished files shows
(``files/output_files.py``), and comes before that write has taken as long as it did in a whole run.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import h5py  # noqa: F401 (before the forks)
import lmdb  # noqa: F401
import onnxruntime  # noqa: F401
import torch

from benchmarks.disks.commands import SOLVER, Command, commands, write_inputs
from benchmarks.record import Namespace, Record, option
from netweave import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OWN_PROGRAM = {"bisect", "pack"}
TIMEOUT_S = 300
PAGE_BYTES = 4096
FILLER = "filler"
"""A page that is always there: a disk of no page at all cannot be mounted."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended.

    Attributes:
        status: Exit status, negative for a signal; None if it was killed by us.
        error: What it wrote to standard error.
        seconds: How long it took.
    """

    status: int | None
    error: str
    seconds: float

    def fault(self) -> str:
        """Return what is wrong with how it ended without being killed; empty if nothing is."""
        if self.status is not None and self.status < 0:
            return signal.Signals(-self.status).name
        if "Traceback" in self.error:
            return "traceback"
        lines = [line for line in self.error.splitlines() if line.startswith("netweave:")]
        if self.status == 2 and (len(lines) != 1 or "cannot be written" not in lines[0]):
            return f"status 2: {self.error[-200:]}"
        return "" if self.status in {0, 1, 2} else f"status {self.status}"


class Writes:
    """The spans of time in which the folder of outputs has unfinished files.

    Attributes:
        spans_s: Begin and end of each, in seconds since the command was started.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._start_s = time.monotonic()
        self.spans_s: list[tuple[float, float]] = []
        self._is_open = False

    def look(self) -> None:
        """Note what is there now; removes and renames beside us may hide a name for once."""
        now_s = time.monotonic() - self._start_s
        unfinished = any(entry.name.startswith(".") for entry in os.scandir(self._folder))
        if unfinished:
            begin_s = self.spans_s.pop()[0] if self._is_open else now_s
            self.spans_s.append((begin_s, now_s))
        self._is_open = unfinished


@dataclass(frozen=True, slots=True)
class Kill:
    """When a process is killed.

    Attributes:
        after_s: Seconds after the beginning of the process, or of one of its writes.
        write: The number of this write; None for the process.
    """

    after_s: float
    write: int | None = None

    def is_due(self, spent_s: float, writes: Writes) -> bool:
        """Return whether the moment has come."""
        if self.write is None:
            return spent_s >= self.after_s
        return len(writes.spans_s) > self.write and spent_s >= writes.spans_s[self.write][0] + self.after_s


def started(words: list[str], inputs: Path, scratch: Path, printed: Path) -> int:
    """Start a process that runs a command, and return its number.

    It is forked, which saves the seconds that imports take. Packing gets a program of its own, since HDF5 may
    end it only when all libraries end, and so does bisecting, whose standard output is what is written.
    """
    os.environ["NETWEAVE_JOBS"] = str(scratch / "jobs")
    streams = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in (printed, scratch / "err")]
    program = [sys.executable, "-m", "netweave", *words]
    if words[0] in OWN_PROGRAM:
        command = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(inputs), *program]
        actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams, 1)]
        process = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
    else:
        process = os.fork()
        if not process:
            os.chdir(inputs)
            for number, stream in enumerate(streams, 1):
                os.dup2(stream, number)
            os._exit(_status(words))
    for stream in streams:
        os.close(stream)
    return process


def _status(words: list[str]) -> int:
    try:
        cli.main(words)
    except SystemExit as left:
        return int(left.code or 0)
    except BaseException:  # noqa: BLE001 (what it counts)
        traceback.print_exc()
    return 1


def ended(process: int, scratch: Path, writes: Writes, kill: Kill | None = None) -> Ended:
    """Wait for a process, or kill it."""
    start_s = time.monotonic()
    killed = False
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        spent_s = time.monotonic() - start_s
        if found:
            code = os.waitstatus_to_exitcode(status)
            return Ended(None if killed else code, (scratch / "err").read_text(errors="replace"), spent_s)
        writes.look()
        if not killed and (kill.is_due(spent_s, writes) if kill else spent_s > TIMEOUT_S):
            os.kill(process, signal.SIGKILL)
            killed = kill is not None
        time.sleep(0.0002)


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Make a folder in memory; not by TemporaryDirectory, which each forked process would clear away."""
    folder = Path(tempfile.mkdtemp(prefix="netweave-disks-", dir="/dev/shm"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def small_disk(folder: Path, num_bytes: int) -> Iterator[None]:
    """Mount a file system of a size over a folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


class Cases:
    """The cases of one command.

    Args:
        command: The command.
        inputs: The folder of what all read.
        scratch: A folder for this command.
        draw: Where sizes and moments come from.
    """

    def __init__(self, command: Command, inputs: Path, scratch: Path, draw: random.Random) -> None:
        self._command, self._inputs, self._scratch, self._draw = command, inputs, scratch, draw
        self._out = scratch / "outputs"
        self._out.mkdir()
        solver = scratch / "solver.prototxt"
        solver.write_text(SOLVER.format(out=self._out))
        self._words = [word.format(out=self._out, solver=solver) for word in command.words]
        writes = Writes(self._out)
        whole = self._run(writes=writes)
        if whole.status not in {0, 1} or command.state(self._out) != "whole":
            raise SystemExit(f"{command.words}: {whole}, {command.state(self._out)}")
        self._seconds = whole.seconds
        self._spans_s = writes.spans_s
        self._names = {path.name for path in self._out.iterdir()}
        self._num_pages = _num_pages(self._out)
        self._is_aimed = False
        self._old = scratch / "old"
        self._out.rename(self._old)
        if not command.outputs:
            shutil.rmtree(self._old)
            self._old.mkdir()

    def full_disk(self) -> str:
        """Run on a disk of a random size; return what came of it."""
        self._out.mkdir()
        room = self._draw.randrange(int(1.2 * self._num_pages) + 1)
        try:
            with small_disk(self._out, (1 + _num_pages(self._old) + room) * PAGE_BYTES):
                (self._out / FILLER).write_bytes(bytes(PAGE_BYTES))
                self._lay_old()
                done = self._run()
                return done.fault() or self._wrong(allow_hidden=False) or f"status {done.status}, whole"
        finally:
            self._out.rmdir()

    def kill(self) -> str:
        """Kill at a random moment and run again; return what came of it."""
        self._out.mkdir()
        self._is_aimed = not self._is_aimed and bool(self._spans_s)
        if self._is_aimed:
            write = self._draw.randrange(len(self._spans_s))
            begin_s, end_s = self._spans_s[write]
            kill = Kill(self._draw.uniform(0, end_s - begin_s), write)
        else:
            kill = Kill(self._draw.uniform(0, 1.05 * self._seconds))
        try:
            self._lay_old()
            done = self._run(kill=kill)
            pending = any(path.name.endswith(".complete") for path in self._out.iterdir())
            wrong = "" if pending else self._wrong(allow_hidden=True)
            amid = any(path.name.startswith(".") for path in self._out.iterdir())
            again = self._again()
            if wrong or again:
                return wrong or again
            moment = "ended before" if done.status is not None else "amid writing" if amid else "killed"
            return f"{moment}, whole"
        finally:
            shutil.rmtree(self._out)

    def _again(self) -> str:
        if self._words[0] == "pack" and self._command.state(self._out) == "whole":
            return ""  # it replaces nothing
        resumes = self._words[0] == "train" and any(self._out.glob("net_iter_*.checkpoint"))
        done = self._run(["--resume"] if resumes else [])
        if done.fault() or done.status == 2:
            return f"the next run: {done.fault() or done.error[-200:]}"
        return (
            self._wrong(allow_hidden=self._words[0] == "train")
            and f"the next run: {self._wrong(allow_hidden=True)}"
        )

    def _wrong(self, *, allow_hidden: bool) -> str:
        state = self._command.state(self._out)
        if state not in {"none", "whole"} or (state == "none" and self._command.outputs):
            return f"half: {state}"
        more = {path.name for path in self._out.iterdir()} - self._names - {FILLER}
        more = {name for name in more if not (allow_hidden and name.startswith(".")) and "_iter_" not in name}
        more -= {"net.lock"} if allow_hidden else set()
        return f"left over: {', '.join(sorted(more))}" if more else ""

    def _lay_old(self) -> None:
        for path in self._old.iterdir():
            shutil.copy(path, self._out)

    def _run(
        self, more: list[str] | None = None, *, kill: Kill | None = None, writes: Writes | None = None
    ) -> Ended:
        printed = self._out / self._command.printed if self._command.printed else self._scratch / "out"
        process = started([*self._words, *(more or [])], self._inputs, self._scratch, printed)
        return ended(process, self._scratch, writes or Writes(self._out), kill)


def _num_pages(folder: Path) -> int:
    """Return how many pages of a disk the files of a folder take."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(-(-path.stat().st_size // PAGE_BYTES) for path in files)


def _counted(case: Callable[[], str], num_cases: int, limit_s: float) -> dict[str, int]:
    """Return how often each outcome came, most frequent first."""
    end_s = time.monotonic() + limit_s
    return dict(Counter(case() for _ in range(num_cases) if time.monotonic() < end_s).most_common())


OPTIONS = (
    option("--cases", default=100),
    option("--command", default=""),
    option("--seconds", default=3600.0, help="of each command's disks, and of its kills"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the cases and write the counts."""
    torch.set_num_threads(1)
    with scratch_folder() as folder:
        inputs = folder / "inputs"
        inputs.mkdir()
        write_inputs(inputs)
        for title, command in commands().items():
            if options.command not in title:
                continue
            scratch = folder / title.replace(" ", "-")
            scratch.mkdir()
            cases = Cases(command, inputs, scratch, random.Random(title))
            record.results[title] = {
                kind: _counted(case, options.cases, options.seconds)
                for kind, case in (("full disks", cases.full_disk), ("kills", cases.kill))
            }
            print(title, json.dumps(record.results[title]), flush=True)
            record.save()
