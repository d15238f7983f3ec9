"""Collectives as tasks of the engine, begun in one order on all ranks.

A collective is two tasks. The first begins it; all first tasks of a channel write one variable, so that they
run in the order in which they were pushed, which is the same on all ranks. The second is done when the
collective is; both write the variable of what is exchanged. What else must be waited for, the gradient before
and the update behind, is the engine's rule of reading and writing.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from netweave.engine import Future, Variable
from netweave.parallel.occupancy import LINK as OCCUPIED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.distributed import Work

    from netweave.engine import Completion, Engine
    from netweave.parallel.world import World

LANE = "link"

REMEMBERED = 1000
"""So many collectives of a channel are remembered, for the order of the next ones and for reports."""


class Channel:
    """Collectives of one process group.

    Args:
        world: The ranks.
        engine: Where tasks run.
        name: For traces and messages.
        in_flight: Collectives at the same time; None for as many as there are.

    Attributes:
        intervals: When the last collectives began and ended, by ``perf_counter``.
    """

    def __init__(self, world: World, engine: Engine, name: str, *, in_flight: int | None = None) -> None:
        self._world = world
        self._engine = engine
        self._name = name
        self._order = Variable(f"order of {name}")
        self._last: deque[Variable] | None = None if in_flight is None else deque(maxlen=in_flight)
        self.intervals: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        engine.add_lane(LANE)

    def push(
        self,
        begin: Callable[[], Work | None],
        variable: Variable,
        *,
        end: Callable[[], None] = lambda: None,
        reads: Sequence[Variable] = (),
        name: str,
    ) -> Completion[Any]:
        """Push a collective.

        Args:
            begin: Begins it; None where this rank takes no part.
            variable: Of what is exchanged; written.
            end: Called when it is done, on any thread.
            reads: What it must wait for besides.
            name: For traces and messages.

        Returns:
            Its end.
        """
        before = list(reads)
        if self._last is not None:
            if len(self._last) == self._last.maxlen:  # as many as may be are on their way: wait for the first
                before.append(self._last[0])
            self._last.append(variable)
        work: list[tuple[Work | None, float]] = []

        def start() -> None:
            with self._world.watched(name):
                begun_s = perf_counter()
                handle = begin()
                work.append((handle, begun_s))
                self._world.progress.collectives += 1
                if handle is not None:
                    self._world.occupancy.enter(OCCUPIED)

        def finish() -> Future[None] | None:
            handle, begun_s = work.pop()
            if handle is None:
                end()
                return None
            return self._promise(handle, end, begun_s, name)

        self._engine.push(start, before, [self._order, variable], lane=LANE, name=f"begin {name}")
        return self._engine.push(finish, (), [variable], lane=LANE, name=name)

    def busy_s(self) -> float:
        """Return how long at least one of the remembered collectives was on its way."""
        total, until = 0.0, 0.0
        for begun_s, ended_s in sorted(self.intervals):
            total += max(0.0, ended_s - max(begun_s, until))
            until = max(until, ended_s)
        return total

    def _promise(self, work: Work, end: Callable[[], None], begun_s: float, name: str) -> Future[None]:
        promise: Future[None] = Future()

        def settle(future: Any) -> None:
            self._world.occupancy.leave(OCCUPIED)
            try:
                future.value()
                end()
                self.intervals.append((begun_s, perf_counter()))
            except BaseException as error:  # noqa: BLE001 - raised where the task is waited for
                promise.fail(self._world.peer_error(name, error))
            else:
                promise.set()

        work.get_future().add_done_callback(settle)
        return promise
