"""Time that a rank computed, communicated, and did both at once, measured without a trace."""

from __future__ import annotations

import contextlib
import threading
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

COMPUTE, LINK = "compute", "link"


class Occupancy:
    """Sums of the time in which something was busy, and in which all of it was.

    Safe to use from any thread: several things may do the same at once, which counts once.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, now: Callable[[], float] = perf_counter) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._began_s = self._since_s = now()
        self._running = {COMPUTE: 0, LINK: 0}
        self._busy_s = {COMPUTE: 0.0, LINK: 0.0}
        self._both_s = 0.0

    def restart(self) -> None:
        """Begin to measure anew, with what is running now."""
        with self._lock:
            self._began_s = self._since_s = self._now()
            self._busy_s = dict.fromkeys(self._busy_s, 0.0)
            self._both_s = 0.0

    def enter(self, what: str) -> None:
        """Something begins to compute, or to be on the link."""
        with self._lock:
            self._pass()
            self._running[what] += 1

    def leave(self, what: str) -> None:
        """It ends."""
        with self._lock:
            self._pass()
            self._running[what] -= 1

    @contextlib.contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Count a block."""
        self.enter(what)
        try:
            yield
        finally:
            self.leave(what)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a block in the middle of computing as time on the link."""
        self.leave(COMPUTE)
        self.enter(LINK)
        try:
            yield
        finally:
            self.leave(LINK)
            self.enter(COMPUTE)

    def shares(self) -> tuple[float, float, float]:
        """Return the shares of the time: computing, on the link; and the share of that which is hidden."""
        with self._lock:
            self._pass()
            elapsed_s = max(self._since_s - self._began_s, 1e-9)
            link_s = self._busy_s[LINK]
            hidden = self._both_s / link_s if link_s else 0.0
            return self._busy_s[COMPUTE] / elapsed_s, link_s / elapsed_s, hidden

    @property
    def exposed_s(self) -> float:
        """Seconds on the link in which nothing was computed."""
        with self._lock:
            self._pass()
            return self._busy_s[LINK] - self._both_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the beginning."""
        return self._now() - self._began_s

    def _pass(self) -> None:
        now_s = self._now()
        passed_s, self._since_s = now_s - self._since_s, now_s
        busy = [what for what, count in self._running.items() if count]
        for what in busy:
            self._busy_s[what] += passed_s
        if len(busy) == len(self._running):
            self._both_s += passed_s
