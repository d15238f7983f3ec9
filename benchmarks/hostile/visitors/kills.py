"""Kills of any part of a running workbench: SIGKILL, at a random moment, of a process chosen at random."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.web.running import Workbench

PARTS = {
    "the server and all": 1,
    "gunicorn": 2,
    "netweave.web.work.worker": 3,
    "multiprocessing.forkserver": 4,
}
"""Words in the command of each part, with its weight; fork servers and processes of jobs have one command."""


class Killer(threading.Thread):
    """Kills so many parts, one after the other, and starts the workbench again where nothing else would."""

    def __init__(self, bench: Workbench, *, kills: int, every_s: float, seed: int = 0) -> None:
        super().__init__(daemon=True)
        self.bench, self.kills, self.every_s = bench, kills, every_s
        self.done: Counter[str] = Counter()
        self._random = random.Random(seed)

    def run(self) -> None:
        """Kill."""
        while self.done.total() < self.kills:
            time.sleep(self._random.uniform(0.3, 1.7) * self.every_s)
            (part,) = self._random.choices(list(PARTS), list(PARTS.values()))
            if part == "the server and all":
                self._restart()
            else:
                processes = self.bench.processes(part)
                if not processes:
                    continue  # is being started again
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(processes), signal.SIGKILL)
            self.done[part] += 1

    def _restart(self) -> None:
        """Kill the process that keeps all others, as ``systemd`` would see it, and start it again."""
        self.bench.process.kill()
        self.bench.process.wait()
        until = time.monotonic() + 20
        while self.bench.processes("netweave.web") and time.monotonic() < until:
            time.sleep(0.1)
        (self.bench.data / "log").rename(self.bench.data / f"log-{self.done.total()}")
        self.bench.start()
