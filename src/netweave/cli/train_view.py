"""The display of ``netweave train``: a line for every event, and on a terminal a progress bar."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from netweave.cli.console import PlainConsole, output_console
from netweave.cli.run_log import log_of
from netweave.training import Ended, Stopped, Updated

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.api.jobs import RunningJob
    from netweave.job import Job
    from netweave.training import Event


class TrainView:
    """The log on standard output, the bar on standard error.

    Args:
        job: What is trained.
        entry: Its entry in the register of jobs, if it has one.
        silent: Show nothing; for ranks but the first.

    Attributes:
        stopped: Whether the run was asked to stop before its end.
    """

    def __init__(self, job: Job, entry: RunningJob | None = None, *, silent: bool = False) -> None:
        self.stopped = False
        self._silent = silent
        self._console = output_console()
        self._log = log_of(job.phases["train"].graph.format)
        if entry is not None:
            for line in self._log.opening(entry.id):
                self._line(line)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=PlainConsole(stderr=True),
            transient=True,
            disable=silent or not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("training", total=job.schedule.max_iterations, numbers="")
        first = next(iter(job.phases["train"].data), None)
        self._records = (first.batch_size if first else 1) * job.solver.accumulate
        self._began: tuple[int, float] | None = None
        for note in job.notes:
            self._line(note)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def _move(self, event: Updated) -> None:
        """Move the bar."""
        if self._bar.disable:
            return
        done = event.iteration + 1
        numbers = f"loss {event.loss:.4g}, lr {event.rate:.3g}{self._speed(done)}"
        self._bar.update(self._task, completed=done, numbers=numbers)

    def _speed(self, iteration: int) -> str:
        """Return the records per second of this run so far, in words."""
        now = perf_counter()
        if self._began is None:
            self._began = (iteration, now)
        done, seconds = (iteration - self._began[0]) * self._records, now - self._began[1]
        return f", {done / seconds:,.0f} images/s" if done else ""

    def show(self, event: Event) -> None:
        """Show what has happened."""
        if isinstance(event, Updated):
            self._move(event)
        elif isinstance(event, Ended):
            self._show_busy(event)
        else:
            self.stopped = self.stopped or isinstance(event, Stopped)
            for line in self._log.lines(event):
                self._line(line)

    def _show_busy(self, event: Ended) -> None:
        """Show how busy the run was; on standard error, since the last line of the log is the last test."""
        lanes = event.lanes
        if event.work:
            for one in () if self._silent else event.work:
                self._bar.console.print(str(one), soft_wrap=True)
            return
        shares = ", ".join(
            f"{name} {lane.mean_running:.0%}" for name, lane in lanes.items() if lane.num_tasks
        )
        self._bar.console.print(f"busy: {shares}")

    def _line(self, text: str) -> None:
        if not self._silent:
            self._console.print(text, soft_wrap=True)
