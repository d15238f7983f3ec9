"""A process that measures one candidate when it is its turn, and answers in lines of JSON after an ``@``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any


class Worker:
    """A process that makes steps of one candidate.

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
        self.about = self._hear()

    def steps(self, count: int) -> dict[str, Any]:
        """Make steps; return what the process says of them."""
        assert self.process.stdin is not None
        print(count, file=self.process.stdin, flush=True)
        return self._hear()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("@"):
                found: dict[str, Any] = json.loads(line[1:])
                return found
        raise SystemExit(f"{' '.join(self.process.args)} ended before its time")  # type: ignore[arg-type]
