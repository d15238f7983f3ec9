"""Links that are down or slow: one run each, how it ended, and what it said."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

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
    folder: Path, rate: str, steps: int, *arguments: str, net: str = command.NET
) -> Iterator[tuple[Any, list[Log]]]:
    """Start a rank on each of two nodes, as a scheduler does; give the nodes and what the ranks say."""
    command.write(folder, steps=steps, snapshot=0, display=1, net=net)
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
