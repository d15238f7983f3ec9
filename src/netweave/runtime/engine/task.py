"""A task, its public face (Completion), and results that arrive later (Future)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.runtime.engine.dependency_engine import Engine
    from netweave.runtime.engine.variable import Variable

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
        skipped: Called instead of the function after an error.
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
        "skipped",
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
        skipped: Callable[[BaseException], None] | None = None,
    ) -> None:
        super().__init__(engine, name, lane)
        self.function: Callable[[], Any] | None = function
        self.reads = reads
        self.writes = writes
        self.priority = priority
        self.skipped = skipped
        self.order = 0
        self.blockers = 0
        self.followers: list[Task] = []
        self.sources: list[Task] = []
        self.thread = ""
        self.deferred = False
        self.pushed_ns = self.ready_ns = self.started_ns = 0
