"""SIGTERM at random moments, as when a machine is taken away; the same command is then started again."""

from __future__ import annotations

import os
import re
import signal
import time
from typing import TYPE_CHECKING, Any

from benchmarks.failures.kills import SEED, Log
from tests.training.parallel import command

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

SHAPES: dict[tuple[str, ...], int] = {("--seed", "4"): 40_000, ("--devices", "cpu:3", *SEED): 4000}
"""Updates of a run alone, and as three ranks: then the launcher or one of them gets the signal. They last for
longer than ten signals take."""

DISPLAY = 20

GRACE_S = 30.0
LONGEST_S = 3.0
"""Each signal comes within so many seconds of a start's first update."""


def whole_run(folder: Path, shape: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters at the end of a run that nobody disturbs."""
    command.write(folder, steps=SHAPES[shape], snapshot=0, display=DISPLAY)
    status, output = command.finish(command.start(folder, *shape))
    assert status == 0, output
    return command.arrays(folder, SHAPES[shape])


def preempted_run(
    folder: Path, shape: tuple[str, ...], draw: random.Random, most: int
) -> tuple[list[dict[str, Any]], int]:
    """Send signals until the run ends, or has had so many; return what each did, and the last exit status."""
    command.write(folder, steps=SHAPES[shape], snapshot=0, display=DISPLAY)
    done: list[dict[str, Any]] = []
    while True:
        process = command.start(folder, *shape, "--requeued")
        with command.ended(process):
            log = Log(process)
            while process.poll() is None and not log.iterations():
                time.sleep(0.02)
            if len(done) < most and process.poll() is None:
                time.sleep(draw.uniform(0, LONGEST_S))
                ranks = command.ranks_of(process) if "--devices" in shape else []
                target = draw.choice([process.pid, *ranks])
                began_s = time.monotonic()
                if process.poll() is None:
                    os.kill(target, signal.SIGTERM)
            status = process.wait(command.TIMEOUT_S)
            log.join(10)
        text = "\n".join(log.lines)
        if done:
            resumed = re.search(r"resuming from \S*_iter_(\d+)\.checkpoint", text)
            done[-1].setdefault("resumed", int(resumed[1]) if resumed else None)
        if status == -signal.SIGTERM and f"Iteration {SHAPES[shape]}, writing" in text:
            continue  # after the last update and its checkpoint, no more is to be saved
        if status != signal.SIGTERM + 128:
            return done, status
        stopped = re.search(r"Iteration (\d+), stopped", text)
        done.append(
            {
                "to": "the process" if target == process.pid else f"rank {ranks.index(target)}",
                "updates": int(stopped[1]) if stopped else None,
                "shown": max(log.iterations(), default=-1),
                "seconds": round(time.monotonic() - began_s, 2),
            }
        )


def faults(one: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with how a run ended and went on."""
    if one["updates"] is None or one["updates"] <= one["shown"]:
        yield f"{one['updates']} updates in the checkpoint, of which {one['shown']} was shown"
    if one.get("resumed") != one["updates"]:
        yield f"resumed from {one.get('resumed')}, not {one['updates']}"
    if one["seconds"] > GRACE_S:
        yield f"took {one['seconds']} s to end"
