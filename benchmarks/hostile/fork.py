"""Batches of cases in forked processes, and what is known of one that ended by a signal."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.hostile.worker import STOP_SECONDS, Outcome, outcome_of, run_cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.hostile.readers import Seed

MAX_CASES = 5000
PATIENCE_S = 90.0
"""Silence after which a process is ended: processor time is limited too, but it may wait for a child."""


@dataclass(slots=True)
class Process:
    """A forked process that writes lines.

    Attributes:
        pid: Its id.
        reading: Where its lines can be read.
        content: What it wrote so far.
        silent_s: How long it has written nothing, without the time in which this process was stopped too.
    """

    pid: int
    reading: int
    content: bytearray = field(default_factory=bytearray)
    silent_s: float = 0.0

    def receive(self) -> bool:
        """Take what it has written; return whether that was all."""
        piece = os.read(self.reading, 1 << 16)
        self.content += piece
        self.silent_s = 0.0
        return not piece

    def is_silent(self, patience_s: float = PATIENCE_S) -> bool:
        """Whether it has not written for too long."""
        return self.silent_s > patience_s

    def end(self) -> tuple[list[str], int]:
        """End it and what it left running; return its lines and status."""
        os.close(self.reading)
        if self.is_silent():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        return self.content.decode().splitlines(), os.waitstatus_to_exitcode(status)


def fork(work: Callable[..., None]) -> Process:
    """Do something in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return Process(child, reading)
    os.close(reading)
    with os.fdopen(writing, "w") as out:
        try:
            work(out)
        except BaseException:  # noqa: BLE001 - nothing of the parent may run on in the child
            print(f"!{traceback.format_exc()!r}", file=out, flush=True)
            os._exit(99)
    os._exit(0)


def wait(processes: list[Process]) -> Process:
    """Wait until one of some processes has written all, or nothing for too long; return it."""
    while True:
        before = time.monotonic()
        ready, _, _ = select.select([process.reading for process in processes], [], [], 1.0)
        for process in processes:
            process.silent_s += min(time.monotonic() - before, 2.0)
            if (process.reading in ready and process.receive()) or process.is_silent():
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
