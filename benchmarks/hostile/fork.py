"""Batches of cases in forked processes, and what is known of one that ended by a signal."""

from __future__ import annotations

import json
import mmap
import os
import select
import signal
import struct
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.hostile.worker import STOP_SECONDS, Outcome, outcome_of, run_cases

if TYPE_CHECKING:
    from benchmarks.hostile.readers import Seed

MAX_CASES = 5000
MAX_BYTES = 4 << 20
"""Text of one batch."""

_HEAD = struct.Struct("<Q")

PATIENCE_S = 90.0
"""Silence after which a process is ended: processor time is limited too, but it may wait for a child."""


class Lines:
    """Text that a process writes and another reads, in memory of both: nothing waits, and nothing is lost."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, MAX_BYTES)
        self._size = _HEAD.size

    def write(self, text: str) -> int:
        """Add some text; what does not fit any more is left out."""
        content = text.encode()
        end = self._size + len(content)
        if end <= MAX_BYTES:
            self._memory[self._size : end] = content
            self._size = end
            _HEAD.pack_into(self._memory, 0, end)
        return len(text)

    def __len__(self) -> int:
        return int(_HEAD.unpack_from(self._memory)[0])

    def text(self) -> str:
        """Return all text so far."""
        return self._memory[_HEAD.size : max(len(self), _HEAD.size)].decode()


@dataclass(slots=True)
class Process:
    """A forked process that writes lines.

    Attributes:
        pid: Its id.
        handle: Says when it has ended.
        lines: What it writes.
        known: How much it had written when last looked at.
        silent_s: How long it has written nothing, without the time in which this process was stopped too.
    """

    pid: int
    handle: int
    lines: Lines
    known: int = 0
    silent_s: float = 0.0

    def look(self, seconds: float) -> None:
        """Note whether it has written in some time."""
        num_bytes = len(self.lines)
        self.silent_s = self.silent_s + seconds if num_bytes == self.known else 0.0
        self.known = num_bytes

    def is_silent(self, patience_s: float = PATIENCE_S) -> bool:
        """Whether it has not written for too long."""
        return self.silent_s > patience_s

    def end(self) -> tuple[list[str], int]:
        """End it and what it left running; return its lines and status."""
        os.close(self.handle)
        if self.is_silent():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.lines.text().splitlines(), os.waitstatus_to_exitcode(status)


def fork(work: Callable[..., None]) -> Process:
    """Do something in a forked process."""
    lines = Lines()
    child = os.fork()
    if child:
        return Process(child, os.pidfd_open(child), lines)
    try:
        work(lines)
    except BaseException:  # noqa: BLE001 - nothing of the parent may run on in the child
        lines.write(f"!{traceback.format_exc()!r}\n")
        os._exit(99)
    os._exit(0)


def wait(processes: list[Process]) -> Process:
    """Wait until one of some processes has ended, or written nothing for too long; return it."""
    while True:
        before = time.monotonic()
        ready, _, _ = select.select([process.handle for process in processes], [], [], 1.0)
        for process in processes:
            process.look(min(time.monotonic() - before, 2.0))
            if process.handle in ready or process.is_silent():
                return process


def forked(work: Callable[..., None]) -> tuple[list[str], int]:
    """Do something in a forked process; return the lines that it wrote, and its status."""
    return wait([fork(work)]).end()


def start_batch(
    seeds: list[Seed], reader: str, seed: int, first: int, *, seconds: float, count: int = MAX_CASES
) -> Process:
    """Read cases from a number on in another process: at most so many, for so many seconds."""
    numbers = range(first, first + min(count, MAX_CASES))
    return fork(partial(run_cases, seeds, reader, seed, numbers, seconds))


def end_batch(process: Process, reader: str) -> list[tuple[int, Outcome]]:
    """Return what became of the cases of a batch that has ended."""
    lines, status = process.end()
    outcomes: list[tuple[int, Outcome]] = []
    number = -1
    for line in lines:
        if line.startswith("!"):
            raise RuntimeError(f"{reader}: the fuzzer itself failed at case {number}: {line}")
        if line.startswith("["):
            outcomes.append((number, outcome_of(json.loads(line))))
            number = -1
        else:
            number = int(line)
    if number >= 0 and status:
        outcomes.append((number, _ended(status)))
    return outcomes


def run_batch(
    seeds: list[Seed], reader: str, seed: int, first: int, seconds: float, count: int = MAX_CASES
) -> list[tuple[int, Outcome]]:
    """Read cases from a number on, in another process, and return what became of them."""
    process = start_batch(seeds, reader, seed, first, seconds=seconds, count=count)
    return end_batch(wait([process]), reader)


def _ended(status: int) -> Outcome:
    """Return the outcome of a case that ended its process."""
    is_time = status in {-signal.SIGPROF, -signal.SIGKILL, -signal.SIGXCPU}
    return Outcome("crashed", STOP_SECONDS if is_time else 0.0, 0, f"status {status}")
