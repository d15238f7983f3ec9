"""Clusters: SIGKILL at random moments, a worker that stands still, and damaged checkpoints of servers."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.failures import kills
from netweave.api import load_job
from netweave.errors import ReadError
from netweave.job import Cluster
from netweave.training.cluster.server import Server
from netweave.training.cluster.topology import place, trained_sizes
from netweave.training.cluster.updates import JobSlices
from netweave.training.loading import make_nets, trained
from netweave.training.optim import Updater
from tests.training.cluster.processes import damaged
from tests.training.parallel import command

STEPS, SNAPSHOT = 300, 50
GROUPS = {"sandblaster": 1, "downpour": 2}
CLUSTERS = {
    "sandblaster": "cluster { nworkers_per_group: 2 server_worker_separate: true }\n",
    "downpour": "cluster { nworker_groups: 2 server_worker_separate: true staleness: 4 }\n",
}
RANKS = 3
"""Two workers, and a server as the last."""

SHAPES = (
    ("sandblaster", "server", "forked"),
    ("downpour", "server", "forked"),
    ("downpour", "worker", "forked"),
    ("downpour", "launcher", "forked"),
    ("downpour", "server", "started"),
)
"""The cluster, what is killed, and whether its processes are forked from one that has imported torch."""

PAUSE_S = 2.0
"""A kill falls within so many seconds of an update."""

END_S = 20.0
"""So long may ranks take to notice that their launcher is dead."""

APPLIED = re.compile(r"server \d+: (\d+) slice updates applied, (\d+) repeated")


def whole_run(folder: Path, shape: tuple[str, str, str]) -> dict[str, Any]:
    """Return what ``end`` does, of a run that nobody disturbs."""
    _write(folder, shape)
    status, output = command.finish(_start(folder, "forked", restarts=0))
    assert status == 0, output
    assert _applied(output.splitlines()) == num_sent(folder, shape)
    return end(folder, shape)


def num_sent(folder: Path, shape: tuple[str, str, str], steps: int = STEPS) -> int:
    """Return how many updates of slices all groups of a run send."""
    graph = load_job(folder / "solver.prototxt").phases["train"].graph
    num_slices = len(place(Cluster(), trained_sizes(graph)).layout.slices)
    return GROUPS[shape[0]] * steps * num_slices


def end(folder: Path, shape: tuple[str, str, str]) -> dict[str, Any]:
    """Return the parameters at the end of a run, where they do not depend on who came first."""
    found = command.arrays(folder, STEPS)
    return found if GROUPS[shape[0]] == 1 else {}


def killed_run(
    folder: Path, shape: tuple[str, str, str], draw: random.Random, most: int
) -> tuple[list[dict[str, Any]], int | None, str]:
    """Kill until the run ends, or often enough; return the kills, the updates applied, and what is wrong."""
    _write(folder, shape)
    process = _start(folder, shape[2], restarts=1000)
    done: list[dict[str, Any]] = []
    lines: list[str] = []
    while True:
        with command.ended(process):
            log = kills.Log(process)
            fault = _kill_on(process, log, shape, draw, done, most)
            lines += log.lines
            if fault or shape[1] != "launcher" or process.returncode == 0:
                status = process.returncode
                break
        process = _start(folder, shape[2], "--requeued", restarts=1000)
    if not fault and any("starting all" in line for line in lines):
        fault = "all were started again: " + "\n".join(
            line for line in lines if not line.lstrip().startswith(("Iteration", "loss", "accuracy"))
        )
    if not fault and status:
        fault = f"status {status}: " + "\n".join(lines)[-2000:]
    return done, _applied(lines) if shape[1] != "launcher" else None, fault


def stop_worker(folder: Path, updates: int, stopped_s: float, staleness: int) -> dict[str, Any]:
    """Stop one of two workers for some seconds; return the histograms of the server, and what is wrong.

    Args:
        folder: For the run.
        updates: Of both workers together.
        stopped_s: How long the second one is stopped, in the middle of the run.
        staleness: The bound.
    """
    command.write(folder, steps=updates // 2, snapshot=updates, display=100)
    text = CLUSTERS["downpour"].replace("staleness: 4", f"staleness: {staleness}")
    (folder / "cluster.conf").write_text(text)
    process = _start(folder, "forked", restarts=0)
    with command.ended(process):
        log = kills.Log(process)
        while process.poll() is None and max(log.iterations(), default=0) < updates // 4:
            time.sleep(0.05)
        pid, before = _ranks(process, log)[1], max(log.iterations())
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stopped_s)
        meanwhile = max(log.iterations()) - before
        os.kill(pid, signal.SIGCONT)
        process.wait()
        log.join(10)
    line = next((one for one in log.lines if APPLIED.search(one)), "")
    leads = [
        int(lead) for lead in re.findall(r"(\d+):", line.partition("slowest group")[2].partition("}")[0])
    ]
    faults = [] if process.returncode == 0 else [f"status {process.returncode}: {log.lines[-5:]}"]
    sent = num_sent(folder, ("downpour", "", ""), updates // 2)
    if _applied(log.lines) != sent:
        faults.append(f"{_applied(log.lines)} updates applied, {sent} sent")
    if max(leads, default=staleness + 1) > staleness:
        faults.append("a worker was too far ahead")
    return {"staleness": staleness, "log": line, "shown while stopped": meanwhile, "faults": faults}


def damage_checkpoints(folder: Path, count: int, draw: random.Random) -> dict[str, Any]:
    """Damage the checkpoint of a server again and again; return how many damages were noticed."""
    command.write(folder, steps=1)
    job = load_job(folder / "solver.prototxt")
    phases = {"train": job.phases["train"]}
    net = make_nets(phases, seed=0, device=torch.device("cpu"), dtype=torch.float32)["train"]
    updater = Updater(job.solver, trained(phases["train"].graph, net, {}), seed=0)
    held = JobSlices(updater)
    server = Server(held, [0])
    for number in range(len(updater.layout.slices)):
        server.put(number, held.rows(number), sequence=0, version=0)
    path = folder / "server.checkpoint"
    server.save(path)
    content, noticed = path.read_bytes(), 0
    for _ in range(count):
        path.write_bytes(damaged(content, draw))
        try:
            server.restore(path)
        except ReadError:
            noticed += 1
    return {"bytes": len(content), "damages": count, "noticed": noticed, "faults": count - noticed}


def _kill_on(
    process: subprocess.Popen[str],
    log: kills.Log,
    shape: tuple[str, str, str],
    draw: random.Random,
    done: list[dict[str, Any]],
    most: int,
) -> str:
    """Kill until the run ends; return what is wrong."""
    begun = 0
    while process.poll() is None:
        if time.monotonic() - log.heard_s > kills.STILL_S:
            return "hangs: " + "\n".join(log.lines)[-2000:]
        if len(done) < most and log.iterations(begun):
            time.sleep(draw.uniform(0, PAUSE_S))
            kill = _kill(process, log, shape, draw)
            if kill:
                begun = len(log.lines)
                done.append(kill)
            if kill and shape[1] == "launcher":
                return _await_orphans(kill)
            if kill:
                _measure_recovery(process, log, kill, begun)
        time.sleep(0.02)
    log.join(10)
    return ""


def _kill(
    process: subprocess.Popen[str], log: kills.Log, shape: tuple[str, str, str], draw: random.Random
) -> dict[str, Any] | None:
    ranks = _ranks(process, log)
    if len(ranks) < RANKS:
        return None
    victim = {"server": RANKS - 1, "worker": draw.randrange(RANKS - 1), "launcher": -1}[shape[1]]
    pid = process.pid if victim < 0 else ranks[victim]
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return {"rank": victim, "shown": max(log.iterations(), default=0), "pids": list(ranks.values())}
    return None


def _await_orphans(kill: dict[str, Any]) -> str:
    """Wait until the ranks of a dead launcher have ended."""
    began_s = time.monotonic()
    while any(command.is_there(pid) for pid in kill["pids"]):
        if time.monotonic() - began_s > END_S:
            return "ranks have not ended after their launcher"
        time.sleep(0.05)
    kill["seconds"] = round(time.monotonic() - began_s, 2)
    return ""


def _measure_recovery(
    process: subprocess.Popen[str], log: kills.Log, kill: dict[str, Any], begun: int
) -> None:
    """Note how long it takes until a rank was started again and the first group has made an update."""
    began_s = time.monotonic()
    while process.poll() is None and time.monotonic() - began_s < kills.STILL_S:
        said = [number for number, line in enumerate(log.lines) if "again" in line and "starting" in line]
        later = said[-1] + 1 if said and said[-1] >= begun - 1 else None
        if later is not None and len(log.iterations(later)) > 1:
            kill["seconds"] = round(time.monotonic() - began_s, 2)
            return
        time.sleep(0.01)


def _ranks(process: subprocess.Popen[str], log: kills.Log) -> dict[int, int]:
    """Return the process of each rank that is there."""
    found: dict[int, int] = {}
    for line in log.lines:
        match = re.search(r"rank (\d+) is process (\d+)$", line)
        if match:
            found[int(match[1])] = int(match[2])
    for pid in command.ranks_of(process):
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_text().split("\0")
            found |= {int(one[5:]): pid for one in variables if one.startswith("RANK=")}
    return {rank: pid for rank, pid in found.items() if command.is_there(pid)}


def _applied(lines: list[str]) -> int | None:
    matches = [match for line in lines if (match := APPLIED.search(line))]
    return sum(int(match[1]) for match in matches) if matches else None


def _write(folder: Path, shape: tuple[str, str, str]) -> None:
    command.write(folder, steps=STEPS, snapshot=SNAPSHOT, display=1)
    (folder / "cluster.conf").write_text(CLUSTERS[shape[0]])


def _start(folder: Path, how: str, *arguments: str, restarts: int) -> subprocess.Popen[str]:
    words = ["train", "solver.prototxt", "--seed", "4", "--cluster", "cluster.conf", "--timeout", "30"]
    if how == "forked":
        before = ["-m", "benchmarks.failures.forked", str(RANKS), str(restarts)]
    else:
        before = ["-m", "netweave"]
        words += ["--devices", f"cpu:{RANKS}", "--restarts", str(restarts)]
    return subprocess.Popen(
        [sys.executable, *before, *words, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
