"""Links that are down or slow, and stores that are killed: one run each, how it ended, and what it said."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.failures import agents
from benchmarks.failures.kills import SEED, Log
from benchmarks.parallel.network import network
from tests.training.parallel import command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

PORT = 29500
TIMEOUT_S = 20.0
"""How long ranks beyond a link wait for each other here."""


@contextlib.contextmanager
def two_nodes(
    folder: Path, rate: str, steps: int, *arguments: str, net: str = command.NET, snapshot: int = 0
) -> Iterator[tuple[Any, list[Log]]]:
    """Start a rank on each of two nodes, as a scheduler does; give the nodes and what the ranks say."""
    command.write(folder, steps=steps, snapshot=snapshot, display=1, net=net)
    with network(rate) as nodes:
        processes = [
            command.start_rank(
                folder,
                rank,
                2,
                PORT,
                *SEED,
                *arguments,
                before=node.command([sys.executable]),
                address=nodes[0].address,
                **node.environment,
            )
            for rank, node in enumerate(nodes)
        ]
        with command.ended(*processes):
            yield nodes, [Log(process) for process in processes]


def cut_link(folder: Path, seconds: float, steps: int) -> dict[str, Any]:
    """Take the link down for some seconds amid a run; return how it ended and what was said."""
    timeout = ("--timeout", f"{TIMEOUT_S:.0f}")
    with two_nodes(folder, "1gbit", steps, *timeout) as (nodes, logs):
        _wait_for(logs[0], "Iteration 20, loss")
        _set_link(nodes, "down")
        began_s = time.monotonic()
        time.sleep(min(seconds, 2 * TIMEOUT_S))
        _set_link(nodes, "up")
        statuses = _ends(logs, began_s + (command.TIMEOUT_S if seconds < TIMEOUT_S else 3 * TIMEOUT_S))
        ended_s = time.monotonic() - began_s
    said = [[line for line in log.lines if "netweave:" in line] for log in logs]
    recovered = statuses == [0, 0]
    expected = recovered or (seconds > TIMEOUT_S and all(status not in {None, 0} for status in statuses))
    return {
        "down s": seconds,
        "timeout s": TIMEOUT_S,
        "ended after s": round(ended_s, 1),
        "statuses": statuses,
        "said": said,
        "faults": int(not expected or not (recovered or all(said))),
    }


def narrow_link(folder: Path, rate: str, steps: int) -> dict[str, Any]:
    """Train a net of 0.9 MB over a link of this rate; return how the run ended."""
    net = command.NET.replace("num_output: 30", "num_output: 3000")
    with two_nodes(folder, rate, steps, net=net) as (_, logs):
        began_s = time.monotonic()
        statuses = _ends(logs, began_s + command.TIMEOUT_S)
        seconds = time.monotonic() - began_s
    said = [[line for line in log.lines if "netweave:" in line] for log in logs]
    return {
        "rate": rate,
        "steps": steps,
        "seconds": round(seconds),
        "statuses": statuses,
        "said": said,
        "faults": int(statuses != [0, 0]),
    }


def lose_store_of_rank(folder: Path) -> dict[str, Any]:
    """Kill the rank that holds the store, then start both ranks again; return how all of that ended."""
    expected = agents.whole_run(folder / "whole", 2)
    options = (*agents.arguments_for(2), "--timeout", f"{TIMEOUT_S:.0f}", "--requeued")
    place = folder / "run"
    with two_nodes(place, "1gbit", agents.STEPS, *options, snapshot=agents.SNAPSHOT) as (_, logs):
        _wait_for(logs[0], f"Iteration {3 * agents.SNAPSHOT}, loss")
        began_s = time.monotonic()
        logs[0].process.kill()
        status = _ends(logs, began_s + 3 * TIMEOUT_S)[1]
        ended_s = time.monotonic() - began_s
    said = [line for line in logs[1].lines if "netweave:" in line]
    with two_nodes(place, "1gbit", agents.STEPS, *options, snapshot=agents.SNAPSHOT) as (_, logs):
        statuses = _ends(logs, time.monotonic() + command.TIMEOUT_S)
    resumed = any("resuming from" in line for line in logs[0].lines)
    same = statuses == [0, 0] and command.is_equal(command.arrays(place, agents.STEPS), expected)
    is_right = status not in {None, 0} and ended_s <= TIMEOUT_S and len(said) == 1 and resumed and same
    return {
        "timeout s": TIMEOUT_S,
        "ended after s": round(ended_s, 1),
        "status": status,
        "said": said,
        "started again, bit-equal": same,
        "faults": int(not is_right),
    }


def lose_store_of_agent(folder: Path) -> dict[str, Any]:
    """Kill the agent that holds the store and leave its worker; start all again when all have ended."""
    expected = agents.whole_run(folder / "whole", 2)
    place = folder / "run"
    command.write(place, steps=agents.STEPS, snapshot=agents.SNAPSHOT, display=agents.DISPLAY)
    with network("1gbit") as nodes:
        first = agents.Agents(place, nodes, 0)
        until_s = time.monotonic() + command.TIMEOUT_S
        while agents.shown(place) < 20 and time.monotonic() < until_s:
            time.sleep(0.1)
        killed, other = first.processes
        pids = [pid for one in first.processes for pid in command.children_of(one.pid)]
        began_s = time.monotonic()
        os.kill(killed.pid, signal.SIGKILL)
        killed.wait()
        ends_s: dict[str, float] = {}
        while len(ends_s) <= len(pids) and time.monotonic() < began_s + command.TIMEOUT_S:
            here = {f"worker {number}": command.is_there(pid) for number, pid in enumerate(pids)}
            here["the other agent"] = other.poll() is None
            for name, is_there in here.items():
                if not is_there:
                    ends_s.setdefault(name, round(time.monotonic() - began_s, 1))
            time.sleep(0.1)
        said = sorted({line for line in agents.log_of(place).splitlines() if "netweave:" in line})
        first.close()
        again = agents.Agents(place, nodes, 1)
        for process in again.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(command.TIMEOUT_S)
        statuses = [process.poll() for process in again.processes]
        again.close()
    same = statuses == [0, 0] and command.is_equal(command.arrays(place, agents.STEPS), expected)
    resumed = "resuming from" in agents.log_of(place)
    return {
        "ended after s": ends_s,
        "said": said,
        "started again, bit-equal": same,
        "faults": int(len(ends_s) <= len(pids) or not said or not resumed or not same),
    }


def _set_link(nodes: Sequence[Any], state: str) -> None:
    node = nodes[0]
    subprocess.run(["ip", "-n", node.namespace, "link", "set", node.device, state], check=True)


def _ends(logs: Sequence[Log], until_s: float) -> list[int | None]:
    """Return the statuses of processes; None for those that have not ended in time."""
    for log in logs:
        with contextlib.suppress(subprocess.TimeoutExpired):
            log.process.wait(max(0.1, until_s - time.monotonic()))
        log.join(5)
    return [log.process.poll() for log in logs]


def _wait_for(log: Log, text: str, most_s: float = 120.0) -> str:
    """Return the first line with a text, or nothing after some time."""
    until_s = time.monotonic() + most_s
    while time.monotonic() < until_s:
        for line in list(log.lines):
            if text in line:
                return line
        time.sleep(0.05)
    return ""
