"""SIGKILL of a random rank at a random moment, again and again; the command restarts its ranks itself."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from netweave.training.checkpoint_file import latest, read_origin
from tests.training.parallel import command

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

STEPS, SNAPSHOT, RANKS = 200, 5, 3
SEED = ("--seed", "4", "--batch", "split")
VARIANTS = (
    (),
    ("--exchange", "owner"),
    ("--exchange", "prioritised"),
    ("--compress", "2bit", "--threshold", "0.005"),
    ("--exchange", "two-level"),
)
"""How gradients are exchanged; each has a state of its own that a restart must find again."""

STILL_S = 120.0
"""A run that says nothing for so long hangs: with an update a line, and a timeout of 30 s."""

START_S, TRAIN_S = 3.0, 3.0
"""Every other kill falls within so many seconds of a start, the others so long after an update."""


class Log(threading.Thread):
    """Reads what a command says while it says it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.lines: list[str] = []
        self.heard_s = time.monotonic()
        self.process = process
        self.start()

    def run(self) -> None:
        """Read to the end."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard_s = time.monotonic()
            self.lines.append(line.rstrip())

    def iterations(self, since: int = 0) -> list[int]:
        """Return the updates that were shown, from a line on."""
        found = (re.match(r"Iteration (\d+), loss", line) for line in self.lines[since:])
        return [int(match[1]) for match in found if match]

    def pid_of(self, rank: int, since: int) -> int | None:
        """Return the process of a rank, from what was said from a line on."""
        found = (re.search(rf"rank {rank} is process (\d+)$", line) for line in self.lines[since:])
        return next((int(match[1]) for match in found if match), None)


def whole_run(folder: Path, variant: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters at the end of a run that nobody disturbs."""
    command.write(folder, steps=STEPS, snapshot=SNAPSHOT, display=1)
    status, output = command.finish(_start(folder, *variant, restarts=0))
    assert status == 0, output
    return command.arrays(folder, STEPS)


def killed_run(
    folder: Path, variant: tuple[str, ...], draw: random.Random, most: int
) -> tuple[list[dict[str, Any]], int, str]:
    """Kill ranks until the run ends, or has been killed so often; return the kills, its status and log."""
    command.write(folder, steps=STEPS, snapshot=SNAPSHOT, display=1)
    process = _start(folder, "--timeout", "30", *variant, restarts=1000)
    kills: list[dict[str, Any]] = []
    with command.ended(process):
        log, begun = Log(process), 0
        while process.poll() is None:
            in_training = len(kills) % 2
            if len(kills) < most and _wait_for_moment(process, log, begun, in_training, draw):
                kill = _kill(process, log, folder, draw, begun, in_training)
                if kill:
                    kills.append(kill)
                    begun = _wait_for_restart(process, log, len(kills))
                    continue
            if time.monotonic() - log.heard_s > STILL_S:
                return kills, -1, "\n".join(log.lines)
            time.sleep(0.1)
        log.join(10)
        for kill, resumed in zip(kills, _resumed(log.lines), strict=False):
            kill["resumed"] = resumed
            kill["redone"] = 0 if resumed is None else max(0, kill["shown"] - resumed)
        return kills, process.returncode, "\n".join(log.lines)


def _start(folder: Path, *arguments: str, restarts: int) -> subprocess.Popen[str]:
    before = [sys.executable, "-m", "benchmarks.failures.forked", str(RANKS), str(restarts)]
    return subprocess.Popen(
        [*before, "train", "solver.prototxt", *SEED, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def faults(kill: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with how a run went on after a kill."""
    if "resumed" not in kill:
        yield "was not started again"
    elif kill["resumed"] not in {None, kill["on_disk"], kill["on_disk_later"]}:
        yield f"went on from {kill['resumed']}, the last on the disk was {kill['on_disk']}"


def _wait_for_moment(
    process: subprocess.Popen[str], log: Log, begun: int, in_training: int, draw: random.Random
) -> bool:
    """Wait for a random moment of a start, or of training; say whether the run is still there."""
    if not in_training:
        time.sleep(draw.uniform(0, START_S))
        return process.poll() is None
    while process.poll() is None and not log.iterations(begun):
        if time.monotonic() - log.heard_s > STILL_S:
            return False
        time.sleep(0.02)
    time.sleep(draw.uniform(0, TRAIN_S))
    return process.poll() is None


def _kill(
    process: subprocess.Popen[str], log: Log, folder: Path, draw: random.Random, begun: int, in_training: int
) -> dict[str, Any] | None:
    rank = draw.randrange(RANKS)
    pid = log.pid_of(rank, begun)
    if pid is None:
        return None
    before = _last_checkpoint(folder)
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    # the first rank, if another was killed, may finish the file that it is writing
    time.sleep(0.3)
    return {
        "rank": rank,
        "in": "training" if log.iterations(begun) else "start",
        "shown": max(log.iterations(begun), default=0),
        "on_disk": before,
        "on_disk_later": _last_checkpoint(folder),
    }


def _wait_for_restart(process: subprocess.Popen[str], log: Log, count: int) -> int:
    """Wait until the launcher has said that it starts again; return the line after that."""
    while process.poll() is None and time.monotonic() - log.heard_s < STILL_S:
        said = [number for number, line in enumerate(log.lines) if "starting all" in line]
        if len(said) >= count:
            return said[-1] + 1
        time.sleep(0.02)
    return len(log.lines)


def _last_checkpoint(folder: Path) -> int:
    """Return the iteration of this run's latest checkpoint; 0 if there is none."""
    with contextlib.suppress(Exception):  # one that is removed while it is looked at
        found = latest(str(folder / "out/net"))
        if found is not None and read_origin(found[0]).generation:
            return int(found[1].state["iteration"])
    return 0


def _resumed(lines: list[str]) -> list[int | None]:
    """Return the iterations from which restarts went on, in order; None for one that was killed before."""
    found: list[int | None] = []
    for line in lines:
        if "starting all" in line:
            found.append(None)
        elif found and found[-1] is None:
            match = re.match(r"resuming from \S+_iter_(\d+)\.", line)
            if match:
                found[-1] = int(match[1])
            elif line.startswith("Iteration "):
                found[-1] = 0
    return found
