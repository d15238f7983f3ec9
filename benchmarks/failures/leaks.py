"""Starts in a row, each ended another way, and two jobs at once: what stays behind, and whether they meet."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.failures.kills import RANKS, SEED, Log
from benchmarks.failures.stops import _wait_for
from tests.training.parallel import command

if TYPE_CHECKING:
    import subprocess

ENDINGS = ("to its end", "rank killed", "SIGTERM", "launcher killed", "Ctrl-C")

NOTICE_S = 15.0
"""Ranks whose launcher was killed notice it within some seconds."""


def start_and_end(folder: Path, ending: str) -> dict[str, Any]:
    """Start a run and end it in one way; return what has stayed behind."""
    steps = 40 if ending == "to its end" else 1_000_000
    command.write(folder, steps=steps, snapshot=0, display=1)
    temporary = folder / "temporary"
    temporary.mkdir()
    shared = set(Path("/dev/shm").iterdir())
    variables = {**os.environ, "TMPDIR": str(temporary)}
    process = command.start(folder, "--devices", f"cpu:{RANKS}", *SEED, start_new_session=True, env=variables)
    with command.ended(process):
        log = Log(process)
        _wait_for(log, "Iteration 10, loss")
        pids = {process.pid, *command.ranks_of(process)}
        port = _port(max(pids))
        _end(process, ending)
        process.wait(60)
        until_s = time.monotonic() + NOTICE_S
        while any(command.is_there(pid) for pid in pids) and time.monotonic() < until_s:
            time.sleep(0.1)
        left = {
            "processes": [pid for pid in pids if command.is_there(pid)],
            "ports": [port] if port and _listens(port) else [],
            "shared memory": sorted(path.name for path in set(Path("/dev/shm").iterdir()) - shared),
            "temporary files": sorted(path.name for path in temporary.iterdir()),
        }
    return {"ending": ending, "status": process.returncode, "left": {k: v for k, v in left.items() if v}}


def _port(rank: int) -> int:
    """Return the port of the store, as a rank has been told."""
    with contextlib.suppress(OSError):
        found = re.search(rb"MASTER_PORT=(\d+)", Path(f"/proc/{rank}/environ").read_bytes())
        return int(found[1]) if found else 0
    return 0


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def two_at_once(folder: Path) -> dict[str, Any]:
    """Run two jobs of other seeds at the same time; each must end as alone."""
    expected, processes = [], []
    for number in range(2):
        place = folder / f"alone {number}"
        command.write(place, steps=100, display=1)
        arguments = ("--devices", "cpu:2", "--batch", "split", "--seed", str(number))
        status, output = command.finish(command.start(place, *arguments))
        assert status == 0, output
        expected.append(command.arrays(place, 100))
    for number in range(2):
        place = folder / f"both {number}"
        command.write(place, steps=100, display=1)
        arguments = ("--devices", "cpu:2", "--batch", "split", "--seed", str(number))
        processes.append(command.start(place, *arguments))
    ended = [command.finish(process) for process in processes]
    same = [command.is_equal(command.arrays(folder / f"both {n}", 100), expected[n]) for n in range(2)]
    return {"statuses": [status for status, _ in ended], "bit-equal": same, "faults": int(not all(same))}


def _end(process: subprocess.Popen[str], ending: str) -> None:
    if ending == "rank killed":
        os.kill(command.ranks_of(process)[1], signal.SIGKILL)
    elif ending == "SIGTERM":
        process.terminate()
    elif ending == "launcher killed":
        process.kill()
    elif ending == "Ctrl-C":
        os.killpg(process.pid, signal.SIGINT)
