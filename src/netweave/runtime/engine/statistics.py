"""Utilisation of the lanes of an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.runtime.engine.task import Task


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
