"""The engine with threads: each lane has its own, and a queue ordered by priority."""

from __future__ import annotations

import heapq
import itertools
import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING

from netweave.runtime.engine.dependency_engine import Engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.runtime.engine.task import Task
    from netweave.runtime.engine.trace import Trace


class _Lane:
    """A queue of tasks that could start, and the threads that take them; all under the engine's lock."""

    __slots__ = ("idle", "name", "num_threads", "numbers", "queue", "wanted")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: list[tuple[int, int, Task]] = []
        self.idle: list[threading.Lock] = []  # held locks on which idle threads sleep
        self.numbers = itertools.count()  # of threads ever begun
        self.num_threads = 0
        self.wanted = 0

    def add(self, task: Task) -> None:
        heapq.heappush(self.queue, (-task.priority, task.order, task))
        if self.idle:
            self.idle.pop().release()

    def wake_all(self) -> None:
        while self.idle:
            self.idle.pop().release()


class ThreadedEngine(Engine):
    """Runs tasks on the threads of their lanes.

    >>> with ThreadedEngine({"compute": 1, "input": 4}) as engine:
    ...     engine.push(lambda: 6 * 7, lane="input").result()
    42
    """

    def __init__(self, lanes: Mapping[str, int] | None = None, *, trace: Trace | None = None) -> None:
        self._lanes: dict[str, _Lane] = {}
        self._threads: set[threading.Thread] = set()
        super().__init__(lanes, trace=trace)

    def _make_ready(self, task: Task) -> None:
        task.ready_ns = perf_counter_ns()
        self._lanes[task.lane].add(task)

    def _pushed(self) -> None:
        pass

    def _in_task(self) -> bool:
        return threading.current_thread() in self._threads

    def _set_threads(self, name: str, num_threads: int) -> None:
        with self._lock:
            lane = self._lanes.setdefault(name, _Lane(name))
            lane.wanted = num_threads
            new = [
                threading.Thread(
                    target=self._work, args=(lane,), name=f"{name} {next(lane.numbers)}", daemon=True
                )
                for _ in range(lane.num_threads, num_threads)
            ]
            lane.num_threads += len(new)
            self._threads.update(new)
            lane.wake_all()  # those that are too many see it and end
        for thread in new:
            thread.start()

    def _stop(self) -> None:
        with self._lock:
            threads = list(self._threads)
            for lane in self._lanes.values():
                lane.wanted = 0
                lane.wake_all()
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join()

    def _work(self, lane: _Lane) -> None:
        """Take tasks from a lane until there are more threads than wanted."""
        thread = threading.current_thread()
        name = thread.name
        bed = threading.Lock()
        bed.acquire()
        while True:
            with self._lock:
                if lane.num_threads > lane.wanted:
                    lane.num_threads -= 1
                    self._threads.discard(thread)
                    return
                task = heapq.heappop(lane.queue)[2] if lane.queue else None
                if task is None:
                    lane.idle.append(bed)
            if task is None:
                bed.acquire()
            else:
                self._run(task, name)
                del task  # or its result would live until the next one comes
