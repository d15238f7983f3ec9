"""Processes of ``netweave`` and what they take: time, processor time and the largest resident memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process took and said.

    Attributes:
        status: Exit status.
        said: Standard output.
        complaint: The end of what it wrote to standard error.
        seconds: From its start to its end.
        cpu_seconds: Processor time.
        peak_mb: Largest resident memory, mapped files included.
    """

    status: int
    said: str
    complaint: str
    seconds: float
    cpu_seconds: float
    peak_mb: float


def run_netweave(words: tuple[str, ...], *, checkout: Path = ROOT) -> Ended:
    """Run a command with the code of a checkout, start of Python included."""
    environment = os.environ | {"PYTHONPATH": str(checkout / "src")}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        start = time.perf_counter()
        command = [sys.executable, "-m", "netweave", *words]
        child = subprocess.Popen(command, stdout=out, stderr=complaints, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        complaints.seek(0)
        said, complaint = out.read().decode(), complaints.read().decode().strip()
    cpu_seconds = usage.ru_utime + usage.ru_stime
    return Ended(child.returncode, said, complaint[-500:], seconds, cpu_seconds, usage.ru_maxrss / 1024)
