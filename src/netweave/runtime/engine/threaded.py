"""Engines: on threads, in one thread, and by a clock that runs nothing."""

from __future__ import annotations

import heapq
import itertools
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns
from typing import Any, TextIO

from netweave.files.output_files import writing
from netweave.runtime.engine.dependency_engine import Completion, Engine, Task


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


@dataclass(frozen=True, slots=True)
class Price:
    """The cost of a task that a clock lets pass instead of running it.

    Attributes:
        seconds: How long it takes with all of the processor that it wants.
        processor: Share of the processor that it wants meanwhile, 0 to 1.
        wire: Name of what it waits for its turn on, without holding its lane's thread; empty for none.
    """

    seconds: float
    processor: float = 1.0
    wire: str = ""


@dataclass(slots=True)
class _Running:
    task: Task
    price: Price
    left_s: float
    place: str


class ClockEngine(Engine):
    """Runs no task: starts them in the order in which threads would, and lets the time pass that each takes.

    What runs at the same time shares one processor fairly: who wants less than an equal share has all of it.
    Time passes when somebody waits.

    Args:
        price: Returns the cost of a task.
        lanes: As for every engine.
        trace: Where to note every task, with times of the clock.

    >>> engine = ClockEngine(lambda task: Price(2.0))
    >>> for _ in range(3):
    ...     done = engine.push(lambda: None)
    >>> engine.wait_all()
    >>> engine.now_s
    6.0
    """

    def __init__(
        self,
        price: Callable[[Task], Price],
        lanes: Mapping[str, int] | None = None,
        *,
        trace: Trace | None = None,
    ) -> None:
        self.now_s = 0.0
        self._price = price
        self._queues: dict[str, list[tuple[int, int, Task, Price | None]]] = {}
        self._free: dict[str, int] = {}
        self._running: list[_Running] = []
        super().__init__(lanes, trace=trace)

    def _time_ns(self) -> int:
        return round(self.now_s * 1e9)

    def _make_ready(self, task: Task) -> None:
        task.ready_ns = self._time_ns()
        heapq.heappush(self._queues[task.lane], (-task.priority, task.order, task, None))

    def _pushed(self) -> None:
        pass

    def _in_task(self) -> bool:
        return False

    def _set_threads(self, lane: str, num_threads: int) -> None:
        self._queues.setdefault(lane, [])
        self._free[lane] = num_threads

    def _stop(self) -> None:
        pass

    def _sleep_until(self, task: Completion[Any], timeout_s: float | None = None) -> bool:
        while not task.done:
            self._advance()
        return True

    def _sleep_until_idle(self) -> None:
        while self._num_unfinished:
            self._advance()

    def _advance(self) -> None:
        """Go on to the next moment at which a task ends."""
        while self._start():
            pass
        rates = _shared([one.price.processor for one in self._running])
        passed_s = min(one.left_s / rate for one, rate in zip(self._running, rates, strict=True))
        self.now_s += passed_s
        for one, rate in zip(self._running, rates, strict=True):
            one.left_s -= passed_s * rate
        ended = [one for one in self._running if one.left_s <= _MOMENT_S]
        self._running = [one for one in self._running if one.left_s > _MOMENT_S]
        for one in ended:
            self._free[one.place] += 1
            self._finish(one.task, None, None)

    def _start(self) -> bool:
        """Start what could start; return whether anything did."""
        begun = False
        for place, queue in list(self._queues.items()):
            while queue and self._free[place]:
                priority, order, task, known = heapq.heappop(queue)
                price = known or self._price(task)
                begun = True
                if known is None:
                    task.started_ns, task.thread = self._time_ns(), task.lane
                if price.wire and known is None:
                    task.deferred = True
                    self._free.setdefault(price.wire, 1)
                    line = self._queues.setdefault(price.wire, [])
                    heapq.heappush(line, (priority, order, task, price))
                    continue
                self._free[place] -= 1
                self._running.append(_Running(task, price, price.seconds, place))
        return begun


_MOMENT_S = 1e-12
"""Seconds of a task below which it has ended: only rounding leaves so few."""


def _shared(wanted: list[float]) -> list[float]:
    """Return the rate of each task, where one processor is shared; those that want little have all of it.

    >>> _shared([1.0, 0.25]), _shared([1.0, 1.0]), _shared([0.5, 0.0])
    ([0.75, 1.0], [0.5, 0.5], [1.0, 1.0])
    """
    rates = [1.0] * len(wanted)
    left, order = 1.0, sorted(range(len(wanted)), key=wanted.__getitem__)
    for place, index in enumerate(order):
        share = min(wanted[index], left / (len(order) - place))
        left -= share
        if wanted[index]:
            rates[index] = share / wanted[index]
    return rates


FLUSH_EVENTS = 1024
"""So many events are kept in memory at most; a killed run loses no more than these."""


class Trace:
    """Writes a timeline to a file as tasks end: one row per thread, one box per task.

    The file is an array of events of the Trace Event Format, which need not be closed, so that the
    timeline of a killed run can be opened too.

    Args:
        path: The file; overwritten.

    Raises:
        WriteError: The file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._events: list[str] = []
        self._threads: dict[str, int] = {}
        self._process = os.getpid()
        with writing(path):
            self._file: TextIO = path.open("w", encoding="utf-8")
        self._file.write("[\n")
        self._emit({"ph": "M", "name": "process_name", "args": {"name": "netweave"}})

    def add_task(self, task: Task, ended_ns: int) -> None:
        """Note a task that has ended."""
        event = {
            "name": task.name,
            "cat": task.lane,
            "ts": task.started_ns / 1000,
            "args": {
                "order": task.order,
                "priority": task.priority,
                "blocked_us": (task.ready_ns - task.pushed_ns) / 1000,
                "queued_us": (task.started_ns - task.ready_ns) / 1000,
                "reads": [variable.name for variable in task.reads],
                "writes": [variable.name for variable in task.writes],
                **({"error": repr(task._error)} if task._error is not None else {}),
            },
        }
        with self._lock:
            event["tid"] = self._thread(task.thread)
            if task.deferred:  # may overlap with what its thread does next
                self._emit({**event, "ph": "b", "id": task.order})
                end = {"ph": "e", "id": task.order, "name": task.name, "cat": task.lane, "tid": event["tid"]}
                self._emit({**end, "ts": ended_ns / 1000})
            else:
                self._emit({**event, "ph": "X", "dur": (ended_ns - task.started_ns) / 1000})
            if len(self._events) >= FLUSH_EVENTS:
                self._flush()

    def describe(self, name: str, arguments: dict[str, Any]) -> None:
        """Note something about the process, such as its ``process_labels``: JSON values."""
        with self._lock:
            self._emit({"ph": "M", "name": name, "args": arguments})

    def close(self) -> None:
        """Write what is left and close the file; a second call does nothing."""
        with self._lock:
            if not self._file.closed:
                with writing(self.path), self._file:
                    self._flush(last=True)

    def _thread(self, name: str) -> int:
        number = self._threads.get(name)
        if number is None:
            number = self._threads[name] = len(self._threads) + 1
            self._emit({"ph": "M", "name": "thread_name", "tid": number, "args": {"name": name}})
        return number

    def _emit(self, event: dict[str, Any]) -> None:
        self._events.append(json.dumps({"pid": self._process, **event}))

    def _flush(self, *, last: bool = False) -> None:
        text = ",\n".join(self._events)
        self._events.clear()
        with writing(self.path):
            self._file.write(text + ("\n]\n" if last else ",\n"))
            self._file.flush()


def num_cores() -> int:
    """Return the number of cores that this process may use, >= 1."""
    # the machine may have more: containers, batch systems and taskset give a process some of its cores
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
