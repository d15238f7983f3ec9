"""Agents of torchrun on several machines: SIGKILL of workers, and of an agent with its workers.

The machines are network namespaces with a link between them (``parallel/network.py``), so this needs root; of
three agents two share a namespace. A worker that was killed is started again by torchrun. Agents do not find
each other again when one has died: the others are then told to end, and all are started again, as a scheduler
does.
"""

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
from typing import TYPE_CHECKING, Any

from tests.training.parallel import command

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.parallel.network import Node

STEPS, SNAPSHOT, DISPLAY = 3000, 50, 10

SHAPES = ((2, "worker"), (3, "worker"), (2, "agent"), (3, "agent"))
"""How many agents there are, and what is killed."""

RATE, PORT = "1gbit", 29500

STILL_S = 240.0
"""A run that says nothing for so long hangs: a start takes 5 to 30 s on a busy machine."""

START_S, TRAIN_S = 8.0, 3.0
"""Every other kill falls within so many seconds of a start, the others so long after an update."""


class Agents:
    """The agents of one start.

    Args:
        folder: Of the run.
        nodes: The machine of each.
        number: Of the start, for a port of its own.
    """

    def __init__(self, folder: Path, nodes: Sequence[Node], number: int) -> None:
        self._folder = folder
        self.processes = [self._start(node, rank, nodes, PORT + number) for rank, node in enumerate(nodes)]

    def _start(self, node: Node, rank: int, nodes: Sequence[Node], port: int) -> subprocess.Popen[bytes]:
        arguments = ["--nnodes", str(len(nodes)), "--nproc-per-node", "1", "--max-restarts", "1000"]
        arguments += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{nodes[0].address}:{port}"]
        arguments += ["--rdzv-id", "run", "--rdzv-conf", f"is_host={int(rank == 0)}"]
        arguments += ["--local-addr", node.address]
        arguments += ["-m", "netweave", "train", "solver.prototxt", *arguments_for(len(nodes))]
        arguments.append("--requeued")
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        with (self._folder / f"agent{rank}.log").open("ab") as log:
            return subprocess.Popen(
                node.command([sys.executable, "-m", "torch.distributed.run", *arguments]),
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **node.environment},
            )

    @property
    def are_there(self) -> bool:
        """True if any of them is."""
        return any(process.poll() is None for process in self.processes)

    def kill(self, number: int) -> None:
        """Kill an agent with its workers, as when the machine goes."""
        process = self.processes[number]
        for pid in [process.pid, *command.children_of(process.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        """Kill all that are still there."""
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                self.kill(number)


def log_of(folder: Path) -> str:
    """Return what all agents of a run have said."""
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("agent*.log")))


def shown(folder: Path) -> int:
    """Return how many updates were shown."""
    return len(re.findall(r"^Iteration \d+, loss", log_of(folder), re.MULTILINE))


def arguments_for(count: int) -> list[str]:
    """Return the options of a run of so many agents: sums over three ranks have the same bits over shards."""
    return ["--batch", "multiply", "--seed", "4", "--same-bits", str(count)]


def whole_run(folder: Path, count: int) -> dict[str, Any]:
    """Return the parameters at the end of one process that nobody disturbs."""
    command.write(folder, steps=STEPS, snapshot=0, display=STEPS)
    status, output = command.finish(command.start(folder, *arguments_for(count)))
    assert status == 0, output
    return command.arrays(folder, STEPS)


def killed_run(
    folder: Path, nodes: Sequence[Node], what: str, draw: random.Random, most: int
) -> tuple[list[dict[str, Any]], list[int], str]:
    """Kill workers or agents until the run ends, or had so many; return the kills, the statuses, and a fault.

    Args:
        folder: Of the run.
        nodes: The machine of each agent.
        what: ``worker`` or ``agent``.
        draw: Of what is killed, and when.
        most: Kills.
    """
    command.write(folder, steps=STEPS, snapshot=SNAPSHOT, display=DISPLAY)
    kills: list[dict[str, Any]] = []
    agents = Agents(folder, nodes, 0)
    try:
        while len(kills) < most and agents.are_there:
            before, in_training = shown(folder), len(kills) % 2 == 1
            if in_training and not _until(lambda: shown(folder) > before or not agents.are_there):  # noqa: B023
                return kills, [], "hangs"
            time.sleep(draw.uniform(0, TRAIN_S if in_training else START_S))
            number = draw.randrange(len(nodes))
            kill = {"number": number, "in": "training" if shown(folder) > before else "start"}
            if what == "agent":
                if not agents.are_there:
                    break
                agents.kill(number)
                for process in agents.processes:
                    process.terminate()
                if not _until(lambda: not agents.are_there):  # noqa: B023
                    return kills, [], "the agents that were left do not end"
                kills.append(kill)
                agents = Agents(folder, nodes, len(kills))
                continue
            workers = command.children_of(agents.processes[number].pid)
            if workers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(workers[-1], signal.SIGKILL)
                    kills.append(kill)
        if not _until(lambda: not agents.are_there):
            return kills, [], "hangs"
        return kills, [process.returncode for process in agents.processes], ""
    finally:
        agents.close()


def _until(is_so: Any) -> bool:
    until_s = time.monotonic() + STILL_S
    while not is_so():
        if time.monotonic() > until_s:
            return False
        time.sleep(0.1)
    return True
