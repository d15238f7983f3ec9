"""Processes that measure in turns and answer in lines of JSON after an ``@``, and their figures."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np


class Worker:
    """A process that measures one candidate.

    Args:
        command: What is started.
        threads: Threads that it computes with.
        folder: Another checkout to run it in.

    Attributes:
        about: What it says when it is ready.
    """

    def __init__(self, command: list[str], threads: int, folder: Path | None = None) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
        if folder is not None:
            environment["PYTHONPATH"] = os.pathsep.join([str(folder / "src"), str(folder)])
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder
        )
        self.about = hear(self.process)

    def ask(self, line: object) -> dict[str, Any]:
        """Write a line to the process; return its answer."""
        assert self.process.stdin is not None
        print(line, file=self.process.stdin, flush=True)
        return hear(self.process)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()


def hear(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what a process says next.

    Raises:
        SystemExit: It has ended.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("@"):
            found: dict[str, Any] = json.loads(line[1:])
            return found
    raise SystemExit(f"{' '.join(map(str, process.args))} ended before its time")  # type: ignore[arg-type]


def spread(values: Sequence[float], digits: int, scale: float = 1.0) -> list[float]:
    """Return the median, the 10th and the 90th percentile."""
    return [round(float(value) * scale, digits) for value in np.percentile(values, [50, 10, 90])]
