"""Engine that runs tasks by their dependencies."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from netweave.errors import RunError, UsageError

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.runtime.engine.threaded import Trace


T = TypeVar("T")


class Completion(Generic[T]):
    """Result of ``push``: done once the task is, with its result or error.

    Attributes:
        name: The task's name.
        lane: Where it runs.
        done: Whether it has ended, well or not.
    """

    __slots__ = ("_engine", "_error", "_value", "_waiters", "done", "lane", "name")

    def __init__(self, engine: Engine, name: str, lane: str) -> None:
        self.name = name
        self.lane = lane
        self.done = False
        self._engine = engine
        self._value: T | None = None
        self._error: BaseException | None = None
        self._waiters: list[threading.Lock] = []

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the task is done; say whether it is. Its error, if any, is not raised.

        Raises:
            RunError: Called by a task, which must name what it needs as variables instead.
        """
        return self.done or self._engine._wait(self, timeout_s)

    def exception(self, timeout_s: float | None = None) -> BaseException | None:
        """Wait, and return the error of the task, or of the one that spoiled a variable it touches.

        Raises:
            TimeoutError: The task is not done in time.
            RunError: Called by a task while this one is unfinished.
        """
        if not self.wait(timeout_s):
            raise TimeoutError(f"task {self.name!r} is not done after {timeout_s} s")
        if self._error is not None:
            self._engine._told(self._error)
        return self._error

    def result(self, timeout_s: float | None = None) -> T:
        """Wait, and return what the task's function returned; raise its error if it failed.

        Raises:
            TimeoutError: The task is not done in time.
            RunError: Called by a task while this one is unfinished.
        """
        error = self.exception(timeout_s)
        if error is not None:
            raise error
        return cast("T", self._value)

    def __repr__(self) -> str:
        state = "pending" if not self.done else "failed" if self._error is not None else "done"
        return f"<task {self.name!r} on lane {self.lane!r}: {state}>"


class Future(Generic[T]):
    """A result that arrives after the task's function has returned.

    For work that somebody else finishes: a collective, a copy to a device, a request. A function that
    returns a Future keeps its task, and so its variables, open until ``set`` or ``fail`` is called, from
    any thread, once.
    """

    __slots__ = ("_callback", "_error", "_lock", "_set", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[T | None, BaseException | None], None] | None = None

    def set(self, value: T | None = None) -> None:
        """The work is done."""
        self._settle(value, None)

    def fail(self, error: BaseException) -> None:
        """The work has failed."""
        self._settle(None, error)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        with self._lock:
            if self._set:
                raise AssertionError("a future is settled once")
            self._set, self._value, self._error = True, value, error
            callback = self._callback
        if callback is not None:
            callback(value, error)

    def _then(self, callback: Callable[[T | None, BaseException | None], None]) -> None:
        """Call back when settled, or now if it already is."""
        with self._lock:
            self._callback = callback
            settled = self._set
        if settled:
            callback(self._value, self._error)


class Task(Completion[Any]):
    """A pushed function, as the engine sees it; everything is changed under the engine's lock.

    Attributes:
        order: Number of the task in the order of pushing, from 1.
        blockers: Unfinished tasks that must end first, once for each variable in common.
        followers: The tasks that this one blocks.
        sources: The last writers of the variables that it touches, whose errors are its own.
        thread: Name of the thread that ran it.
        deferred: Whether it gave a future instead of a result.
    """

    __slots__ = (
        "blockers",
        "deferred",
        "followers",
        "function",
        "order",
        "priority",
        "pushed_ns",
        "reads",
        "ready_ns",
        "sources",
        "started_ns",
        "thread",
        "writes",
    )

    def __init__(
        self,
        engine: Engine,
        function: Callable[[], Any],
        reads: tuple[Variable, ...],
        writes: tuple[Variable, ...],
        *,
        lane: str,
        priority: int,
        name: str,
    ) -> None:
        super().__init__(engine, name, lane)
        self.function: Callable[[], Any] | None = function
        self.reads = reads
        self.writes = writes
        self.priority = priority
        self.order = 0
        self.blockers = 0
        self.followers: list[Task] = []
        self.sources: list[Task] = []
        self.thread = ""
        self.deferred = False
        self.pushed_ns = self.ready_ns = self.started_ns = 0


class Variable:
    """Something that tasks read and write: a tensor, a random generator, a file, an order to keep.

    It holds no value; tasks reach the thing itself in their own way. It belongs to the engine in which it
    is first used. Two variables are never equal.

    Args:
        name: For traces and messages.
    """

    __slots__ = ("_engine", "_readers", "_writer", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._engine: Engine | None = None
        # The last pushed task that writes, while it is unfinished, or failed and nobody was told.
        self._writer: Task | None = None
        # Unfinished tasks that read, pushed after that writer.
        self._readers: set[Task] = set()

    def __repr__(self) -> str:
        return f"Variable({self.name!r})"


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """Work of a lane since its engine was made.

    Attributes:
        num_tasks: Tasks that ended.
        busy_s: Sum of the times from start to end of these tasks.
        queued_s: Sum of the times that they could have started and had not yet.
        elapsed_s: Age of the engine.
    """

    num_tasks: int
    busy_s: float
    queued_s: float
    elapsed_s: float

    @property
    def mean_running(self) -> float:
        """Mean number of running tasks of the lane; 1.0 is one thread always busy."""
        return self.busy_s / self.elapsed_s if self.elapsed_s else 0.0


class LaneCounter:
    """The running sums behind ``LaneStatistics``; changed under the engine's lock."""

    __slots__ = ("busy_ns", "num_tasks", "queued_ns")

    def __init__(self) -> None:
        self.num_tasks = 0
        self.busy_ns = 0
        self.queued_ns = 0

    def add(self, task: Task, ended_ns: int) -> None:
        """Count a task that has ended."""
        self.num_tasks += 1
        self.busy_ns += ended_ns - task.started_ns
        self.queued_ns += task.started_ns - task.ready_ns

    def statistics(self, elapsed_s: float) -> LaneStatistics:
        """Return the sums so far, in seconds."""
        return LaneStatistics(self.num_tasks, self.busy_ns * 1e-9, self.queued_ns * 1e-9, elapsed_s)


# Each variable knows its last writer and the readers since; a pushed task is blocked by those of them that
# are unfinished, which is the same as a queue per variable in which any number of readers may run together
# and a writer runs alone. As a task is only ever blocked by earlier ones, and no task may wait, there is
# always one that can run.
#
# Errors follow the same order. A task that raises spoils the variables it writes; a task that touches a
# spoiled variable is not run and fails with the same error, spoiling what it writes in turn. ``wait_for``
# raises the error of a spoiled variable, once: from then on the variable is good again for later tasks.

LANES = {"compute": 1, "input": 2, "output": 1}
"""The lanes of an engine whose maker does not say, with their numbers of threads."""


class Engine(ABC):
    """Runs pushed tasks so that the result is that of running them one after another.

    Safe to use from any thread. Leaving a ``with`` block closes the engine: normally after all tasks are
    done, or, when the block is left by an error, after those that already run.

    Args:
        lanes: Names of lanes, with the number of threads of each, >= 1.
        trace: Where to note every task; None for nowhere. Closed with the engine.
    """

    def __init__(self, lanes: Mapping[str, int] | None = None, *, trace: Trace | None = None) -> None:
        self._lock = threading.Lock()
        self._trace = trace
        self._counters: dict[str, LaneCounter] = {}
        self._num_pushed = 0
        self._num_unfinished = 0
        self._idle_waiters: list[threading.Lock] = []
        self._untold: dict[int, Task] = {}  # tasks whose own error nobody has seen, by id of the error
        self._forgiven = 0  # errors of tasks up to this number were told to all by wait_all
        self._cancelled: RunError | None = None
        self._closed = False
        self._began_ns = perf_counter_ns()
        for name, num_threads in (LANES if lanes is None else lanes).items():
            self.add_lane(name, num_threads)

    def push(
        self,
        function: Callable[[], T | Future[T]],
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        lane: str = "compute",
        priority: int = 0,
        name: str = "",
    ) -> Completion[T]:
        """Add a task; return at once.

        Args:
            function: Called once, without arguments, after all earlier tasks that write what it touches,
                or touch what it writes, are done. It must not wait for other tasks. If it returns a
                ``Future``, the task is done when that is settled.
            reads: What it looks at. One that is also in ``writes`` counts as written.
            writes: What it changes, also where it looks at it before.
            lane: Where it runs.
            priority: Among the tasks that could start on the lane, the highest goes first.
            name: For traces and messages; the function's own by default.

        Raises:
            UsageError: The engine is closed, there is no such lane, or a variable is another engine's.
        """
        writes = tuple(writes)
        reads = tuple(variable for variable in reads if variable not in writes) if writes else tuple(reads)
        task = Task(
            self,
            function,
            reads,
            writes,
            lane=lane,
            priority=priority,
            name=name or getattr(function, "__name__", "task"),
        )
        with self._lock:
            self._check(task)
            self._num_pushed += 1
            self._num_unfinished += 1
            task.order = self._num_pushed
            task.pushed_ns = self._time_ns()
            for variable in reads:
                self._follow(task, variable._writer)
                variable._readers.add(task)
            for variable in writes:
                if variable._writer is not task:  # named twice
                    self._follow(task, variable._writer)
                    for reader in variable._readers:
                        reader.followers.append(task)
                    task.blockers += len(variable._readers)
                    variable._readers.clear()
                    variable._writer = task
            if not task.blockers:
                self._make_ready(task)
        self._pushed()
        return task

    def wait_for(self, variable: Variable) -> None:
        """Wait until every pushed task that writes the variable is done; raise its error, if it has one.

        Raises:
            RunError: Called by a task.
            BaseException: What the task raised that spoiled the variable, which is good again from now on.
        """
        task = variable._writer
        if task is None:
            return
        task.wait()
        with self._lock:
            if variable._writer is task:
                variable._writer = None
        error = self._error_of(task)
        if error is not None:
            self._told(error)
            raise error

    def wait_all(self) -> None:
        """Wait until no task is left; raise the first error, in the order of pushing, not yet raised.

        All variables are good again from then on; other errors are named in a note.

        Raises:
            RunError: Called by a task.
            BaseException: What a task raised.
        """
        self._sleep_until_idle()
        with self._lock:
            self._forgiven = self._num_pushed
            failed = sorted(self._untold.values(), key=lambda task: task.order)
            self._untold.clear()
        if failed:
            error = failed[0]._error
            assert error is not None
            for task in failed[1:]:
                error.add_note(f"and task {task.name!r} failed: {task._error!r}")
            raise error

    def close(self, *, cancel: bool = False) -> None:
        """Wait for the tasks, raise what nobody was told, and end the threads; a second call does nothing.

        Args:
            cancel: Do not start what has not started: those tasks fail with a RunError; raise nothing.

        Raises:
            RunError: Called by a task.
            BaseException: As ``wait_all``.
        """
        if cancel:
            self._cancelled = RunError("cancelled: the engine was closed before the task could start")
        try:
            if cancel:
                self._sleep_until_idle()
            else:
                self.wait_all()
        finally:
            with self._lock:
                was_closed, self._closed = self._closed, True
            if not was_closed:
                self._stop()
                if self._trace is not None:
                    self._trace.close()

    def statistics(self) -> dict[str, LaneStatistics]:
        """Return how busy each lane has been since the engine was made."""
        elapsed_s = (perf_counter_ns() - self._began_ns) * 1e-9
        with self._lock:
            return {name: counter.statistics(elapsed_s) for name, counter in self._counters.items()}

    def add_lane(self, name: str, num_threads: int = 1) -> None:
        """Add a lane, or change the number of threads of one: extra ones end after their present task.

        Raises:
            UsageError: Fewer than one thread.
        """
        if num_threads < 1:
            raise UsageError(f"lane {name!r} has {num_threads} threads, expected at least 1")
        with self._lock:
            self._counters.setdefault(name, LaneCounter())
        self._set_threads(name, num_threads)

    def trace_to(self, trace: Trace) -> None:
        """Note every task that ends from now on; the trace is closed with the engine."""
        self._trace = trace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(cancel=error is not None)

    # What an engine of its own kind says.

    @abstractmethod
    def _make_ready(self, task: Task) -> None:
        """Take a task that nothing blocks any more; called under the lock."""

    @abstractmethod
    def _pushed(self) -> None:
        """Called after each push, without the lock."""

    @abstractmethod
    def _in_task(self) -> bool:
        """Return whether the caller is a task of this engine."""

    @abstractmethod
    def _set_threads(self, lane: str, num_threads: int) -> None:
        """Give a lane its threads."""

    @abstractmethod
    def _stop(self) -> None:
        """End all threads; no task is left."""

    # The life of a task.

    def _time_ns(self) -> int:
        return perf_counter_ns()

    def _check(self, task: Task) -> None:
        if self._closed:
            raise UsageError(f"task {task.name!r} was pushed to an engine that is closed")
        if task.lane not in self._counters:
            raise UsageError(f"unknown lane {task.lane!r}; expected one of {', '.join(self._counters)}")
        for variable in (*task.reads, *task.writes):
            if variable._engine is not self:
                if variable._engine is not None:
                    raise UsageError(f"variable {variable.name!r} belongs to another engine")
                variable._engine = self

    def _follow(self, task: Task, source: Task | None) -> None:
        """Let a task come after the last writer of a variable and share its error."""
        if source is None:
            return
        if not source.done:
            source.followers.append(task)
            task.blockers += 1
            task.sources.append(source)
        elif source.order > self._forgiven:
            task.sources.append(source)

    def _run(self, task: Task, thread: str) -> None:
        """Call a task's function, or pass on the error of what it touches, and finish it."""
        task.started_ns = self._time_ns()
        task.thread = thread
        error = self._cancelled or self._inherited(task)
        if error is not None:
            self._finish(task, None, error, inherited=True)
            return
        function = task.function
        assert function is not None
        try:
            value = function()
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is waited for
            self._finish(task, None, raised)
            return
        if isinstance(value, Future):
            task.deferred = True
            value._then(lambda later, failure: self._finish(task, later, failure))
        else:
            self._finish(task, value, None)

    @staticmethod
    def _inherited(task: Task) -> BaseException | None:
        for source in task.sources:
            if source._error is not None:
                return source._error
        return None

    def _finish(
        self, task: Task, value: Any, error: BaseException | None, *, inherited: bool = False
    ) -> None:
        ended_ns = self._time_ns()
        if error is not None and not inherited:
            error.add_note(f"in task {task.name!r} on lane {task.lane!r}")
        with self._lock:
            task._value, task._error = value, error
            task.function = None
            task.sources = []
            task.done = True
            self._release(task)
            if error is not None and not inherited:
                self._untold[id(error)] = task
            self._counters[task.lane].add(task, ended_ns)
            for waiter in task._waiters:
                waiter.release()
            self._num_unfinished -= 1
            if not self._num_unfinished:
                for waiter in self._idle_waiters:
                    waiter.release()
                self._idle_waiters.clear()
        if self._trace is not None:
            self._trace.add_task(task, ended_ns)

    def _release(self, task: Task) -> None:
        """Take a finished task out of its variables, and make ready what only it blocked."""
        for variable in task.reads:
            variable._readers.discard(task)
        if task._error is None:
            for variable in task.writes:
                if variable._writer is task:
                    variable._writer = None
        for follower in task.followers:
            follower.blockers -= 1
            if not follower.blockers:
                self._make_ready(follower)
        task.followers = []

    # Waiting.

    def _wait(self, task: Completion[Any], timeout_s: float | None) -> bool:
        self._refuse_in_task(f"task {task.name!r}")
        return self._sleep_until(task, timeout_s)

    def _sleep_until(self, task: Completion[Any], timeout_s: float | None = None) -> bool:
        with self._lock:
            if task.done:
                return True
            gate = _closed_gate(task._waiters)
        return gate.acquire(timeout=-1 if timeout_s is None else timeout_s)

    def _sleep_until_idle(self) -> None:
        self._refuse_in_task("all tasks")
        with self._lock:
            if not self._num_unfinished:
                return
            gate = _closed_gate(self._idle_waiters)
        gate.acquire()

    def _refuse_in_task(self, what: str) -> None:
        if self._in_task():
            raise RunError(
                f"a task waits for {what}, which could wait for this task in turn; "
                "name what the task needs as a variable that it reads"
            )

    def _error_of(self, task: Task) -> BaseException | None:
        """Return the error of a finished task, unless ``wait_all`` has told it."""
        return task._error if task.order > self._forgiven else None

    def _told(self, error: BaseException) -> None:
        with self._lock:
            self._untold.pop(id(error), None)


def _closed_gate(gates: list[threading.Lock]) -> threading.Lock:
    """Return a new lock, held, and note it among those to open."""
    gate = threading.Lock()
    gate.acquire()
    gates.append(gate)
    return gate
