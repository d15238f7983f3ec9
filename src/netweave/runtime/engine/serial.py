"""An engine without threads, for debugging: each task runs inside the call that pushed it."""

from __future__ import annotations

import heapq
import threading
from typing import TYPE_CHECKING

from netweave.runtime.engine.dependency_engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.runtime.engine.task import Task
    from netweave.runtime.engine.trace import Trace


class SerialEngine(Engine):
    """Runs every task in the thread that pushes it, in the order of pushing, and stops in its debugger.

    Lanes and priorities are accepted and mean nothing. What a task pushes runs when that task is done.
    """

    def __init__(self, lanes: Mapping[str, int] | None = None, *, trace: Trace | None = None) -> None:
        self._ready: list[tuple[int, Task]] = []
        self._thread: int | None = None  # the one that runs tasks now
        super().__init__(lanes, trace=trace)

    def _make_ready(self, task: Task) -> None:
        task.ready_ns = task.pushed_ns
        heapq.heappush(self._ready, (task.order, task))

    def _pushed(self) -> None:
        with self._lock:
            if self._thread is not None:
                return
            self._thread = threading.get_ident()
        while (task := self._next()) is not None:
            self._run(task, threading.current_thread().name)
            if not task.done:  # it gave a future
                self._sleep_until(task)

    def _next(self) -> Task | None:
        with self._lock:
            if self._ready:
                return heapq.heappop(self._ready)[1]
            self._thread = None
            return None

    def _in_task(self) -> bool:
        return self._thread == threading.get_ident()

    def _set_threads(self, lane: str, num_threads: int) -> None:
        pass

    def _stop(self) -> None:
        pass
