"""SIGTERM at random moments, as when a machine is taken away; the same command is then started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.failures import fitted
from benchmarks.failures.kills import SEED, Log
from netweave.training.checkpoint_file import read_checkpoint
from tests.training.parallel import command

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

SHAPES: dict[tuple[str, ...], int] = {
    ("--seed", "4"): 40_000,
    ("--devices", "cpu:3", *SEED): 4000,
    ("torchrun",): 4000,
    **dict.fromkeys([("keras",), ("mxnet",), ("exact",)], fitted.UPDATES),
}
"""Updates of ``netweave train`` alone, as three ranks (then the launcher or one of them gets the signal), and
under two agents of torchrun (then an agent or a worker); of a fit by ``netweave.keras`` and
``netweave.mxnet``, and of a loop of PyTorch's with ``netweave.exact``. All outlast several signals."""

DISPLAY = 20

GRACE_S = 30.0
LONGEST_S = 3.0
"""Each signal comes within so many seconds of a start's first update."""


def whole_run(folder: Path, shape: tuple[str, ...]) -> dict[str, Any]:
    """Return the parameters at the end of a run that nobody disturbs."""
    command.write(folder, steps=SHAPES[shape], snapshot=0, display=DISPLAY)
    status, output = command.finish(_start(folder, shape))
    assert status == 0, output
    return end(folder, shape)


def end(folder: Path, shape: tuple[str, ...]) -> dict[str, Any]:
    """Return all arrays of the last checkpoint of a run that has ended, states of optimizers too."""
    return dict(read_checkpoint(folder / f"out/net_iter_{SHAPES[shape]}.checkpoint").arrays)


def _start(folder: Path, shape: tuple[str, ...]) -> subprocess.Popen[str]:
    if shape[0] not in fitted.KINDS:
        return command.start(folder, *shape, "--requeued")
    pipe = subprocess.PIPE
    program = [sys.executable, "-m", "benchmarks.failures.fitted", *shape]
    path = os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        program, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    )


def _targets(process: subprocess.Popen[str], shape: tuple[str, ...]) -> dict[str, int]:
    """Return the processes that the signal may go to, by name."""
    if shape == ("torchrun",):
        agents = command.ranks_of(process)
        workers = [pid for agent in agents for pid in command.children_of(agent)]
        return {
            f"{kind} {number}": pid
            for kind, pids in (("agent", agents), ("rank", workers))
            for number, pid in enumerate(pids)
        }
    ranks = command.ranks_of(process) if "--devices" in shape else []
    return {"the process": process.pid, **{f"rank {rank}": pid for rank, pid in enumerate(ranks)}}


def preempted_run(
    folder: Path, shape: tuple[str, ...], draw: random.Random, most: int
) -> tuple[list[dict[str, Any]], int]:
    """Send signals until the run ends, or has had so many; return what each did, and the last exit status."""
    command.write(folder, steps=SHAPES[shape], snapshot=0, display=DISPLAY)
    done: list[dict[str, Any]] = []
    while True:
        process = _start(folder, shape)
        with command.ended(process):
            log = Log(process)
            while process.poll() is None and not log.iterations():
                time.sleep(0.02)
            if len(done) < most and process.poll() is None:
                time.sleep(draw.uniform(0, LONGEST_S))
                targets = _targets(process, shape)
                target = draw.choice(list(targets))
                began_s = time.monotonic()
                if process.poll() is None:
                    os.kill(targets[target], signal.SIGTERM)
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
                "to": target,
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
