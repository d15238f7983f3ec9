"""The base of every engine: dependencies, errors, and waiting.

Each variable knows its last writer and the readers since; a pushed task is blocked by those of them that
are unfinished, which is the same as a queue per variable in which any number of readers may run together
and a writer runs alone. As a task is only ever blocked by earlier ones, and no task may wait, there is
always one that can run.

Errors follow the same order. A task that raises spoils the variables it writes; a task that touches a
spoiled variable is not run and fails with the same error, spoiling what it writes in turn. ``wait_for``
raises the error of a spoiled variable, once: from then on the variable is good again for later tasks.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Self, TypeVar

from netweave.errors import RunError, UsageError
from netweave.runtime.engine.statistics import LaneCounter, LaneStatistics
from netweave.runtime.engine.task import Completion, Future, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from netweave.runtime.engine.trace import Trace
    from netweave.runtime.engine.variable import Variable

T = TypeVar("T")

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
        skipped: Callable[[BaseException], None] | None = None,
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
            skipped: Called instead of the function where that is not called any more: with the error of an
                earlier task, or that of a cancelled engine.

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
            skipped=skipped,
        )
        with self._lock:
            self._check(task)
            self._num_pushed += 1
            self._num_unfinished += 1
            task.order = self._num_pushed
            task.pushed_ns = perf_counter_ns()
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
        task.started_ns = perf_counter_ns()
        task.thread = thread
        error = self._cancelled or self._inherited(task)
        if error is not None:
            if task.skipped is not None:
                task.skipped(error)
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
        ended_ns = perf_counter_ns()
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
