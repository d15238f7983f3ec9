"""Links of a run: collectives as tasks of the engine, begun in one order on all ranks.

A collective is two tasks. The first begins it; all first tasks of a channel write one variable, so that they
run in the order in which they were pushed, which is the same on all ranks. The second is done when the
collective is; both write the variable of what is exchanged. What else must be waited for, the gradient before
and the update behind, is the engine's rule of reading and writing.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any

from netweave.runtime.engine import Future, Variable
from netweave.training.parallel.occupancy import LINK as OCCUPIED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch.distributed import Work

    from netweave.runtime.engine import Completion, Engine
    from netweave.training.parallel.world import World


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
        # as many collectives may be on their way as there are slots; the gradient of an earlier one would not
        # do instead of a slot, since the backward pass of the next update writes it too
        self._slots = [Variable(f"slot {number} of {name}") for number in range(in_flight or 0)]
        self._num_pushed = 0
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
        written = [variable]
        if self._slots:
            written.append(self._slots[self._num_pushed % len(self._slots)])
        self._num_pushed += 1
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

        self._engine.push(start, reads, [self._order, *written], lane=LANE, name=f"begin {name}")
        return self._engine.push(finish, (), written, lane=LANE, name=name)

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


def busy_s(intervals: Iterable[tuple[float, float]]) -> float:
    """Return for how long at least one of some collectives was on its way.

    Args:
        intervals: When each began and ended.

    >>> busy_s([(0.0, 2.0), (1.0, 3.0), (5.0, 6.0)])
    4.0
    """
    total, until = 0.0, 0.0
    for begun_s, ended_s in sorted(intervals):
        total += max(0.0, ended_s - max(begun_s, until))
        until = max(until, ended_s)
    return total


def fastest_update_s(intervals: Sequence[tuple[float, float]], num_collectives: int) -> float:
    """Return for how long the link was busy in the fastest of some updates; 0 if there is no whole one.

    A collective also lasts while one rank waits for another that was held up, which says nothing of the link.

    Args:
        intervals: When each collective began and ended, update after update.
        num_collectives: How many an update has.
    """
    ends = range(len(intervals), num_collectives - 1, -num_collectives)
    return min((busy_s(intervals[end - num_collectives : end]) for end in ends), default=0.0)
