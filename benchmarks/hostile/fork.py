"""Batches of cases in forked processes, and what is known of one that ended by a signal."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from benchmarks.hostile.worker import STOP_SECONDS, Outcome, outcome_of, run_cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.hostile.readers import Seed

MAX_CASES = 2000
PATIENCE_S = 90.0
"""Silence after which a process is ended: processor time is limited too, but it may wait for a child."""


def run_batch(
    seeds: list[Seed], reader: str, seed: int, first: int, seconds: float
) -> list[tuple[int, Outcome]]:
    """Read cases from a number on, in another process, and return what became of them."""
    lines, status = forked(
        lambda out: run_cases(seeds, reader, seed, range(first, first + MAX_CASES), seconds, out)
    )
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
    if number >= 0:
        outcomes.append((number, _ended(status)))
    return outcomes


def _ended(status: int) -> Outcome:
    """Return the outcome of a case that ended its process."""
    is_time = status in {-signal.SIGPROF, -signal.SIGKILL, -signal.SIGXCPU}
    return Outcome("crashed", STOP_SECONDS if is_time else 0.0, 0, f"status {status}")


def forked(work: Callable[..., None], *, patience_s: float = PATIENCE_S) -> tuple[list[str], int]:
    """Do something in a forked process; return the lines that it wrote, and its status."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as out:
            try:
                work(out)
            except BaseException:  # noqa: BLE001 - nothing of the parent may run on in the child
                print(f"!{traceback.format_exc()!r}", file=out, flush=True)
                os._exit(99)
        os._exit(0)
    os.close(writing)
    content = bytearray()
    heard = time.monotonic()
    while True:
        ready, _, _ = select.select([reading], [], [], 1.0)
        if ready:
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            content += piece
            heard = time.monotonic()
        elif time.monotonic() - heard > patience_s:
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            break
    os.close(reading)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what a case left running
    return content.decode().splitlines(), os.waitstatus_to_exitcode(status)
