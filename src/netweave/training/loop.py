"""The loop of a training: updates one after another, and checkpoints between them."""

from __future__ import annotations

import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from netweave.errors import UsageError
from netweave.job import Checkpoints
from netweave.training.checkpoint_file import RESUME_IF_ANY, Checkpoint, latest, read_checkpoint
from netweave.training.parallel.environment import INTERRUPTED, PREEMPTED


@dataclass(frozen=True, slots=True)
class FitCheckpoints:
    """The checkpoints that a fit writes and reads.

    Attributes:
        prefix: Path that the names of the files start with; None for no checkpoints.
        interval: Updates between two; None for one at the end of each epoch.
        keep: How many are kept; None for the last three.
        resume: The checkpoint to go on from; True for the latest that is whole, ``"auto"`` for that one or
            none, False for none.
    """

    prefix: str | Path | None = None
    interval: int | None = None
    keep: int | None = None
    resume: bool | str | Path = False

    def settings(self, batches_per_epoch: int = 0) -> Checkpoints:
        """Return what a Job says of checkpoints; 0 leaves it to the run to know where an epoch ends."""
        if self.prefix is None:
            return Checkpoints(at_end=False)
        return Checkpoints(prefix=str(self.prefix), interval=self.interval or batches_per_epoch)

    def find(self) -> tuple[Path, Checkpoint] | None:
        """Return the checkpoint to go on from; None for a fit from the beginning.

        Raises:
            UsageError: There is none, or nobody has said where.
            ReadError: It is damaged, or is no checkpoint.
        """
        if not self.resume:
            return None
        if not isinstance(self.resume, bool) and self.resume != RESUME_IF_ANY:
            path = Path(self.resume)
            return path, read_checkpoint(path)
        if self.prefix is None:
            raise UsageError("resume=True needs checkpoint_prefix, where the checkpoints are")
        newest = latest(str(self.prefix))
        if newest is None and self.resume != RESUME_IF_ANY:
            raise UsageError(f"there is no checkpoint {self.prefix}_iter_*.checkpoint to go on from")
        return newest


class Loop(ABC):
    """A run that may be stopped between two updates, and resumed from its checkpoints.

    Args:
        checkpoints: Which checkpoints it writes.

    Attributes:
        iteration: Updates done; those on their way count.
        stopped_by: The exit status that asked it to stop, ``INTERRUPTED`` or ``PREEMPTED``; 0 if none did.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.iteration = 0
        self._checkpoints = checkpoints
        self.stopped_by = 0
        self._saved_at: int | None = None

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """True if no update is left."""

    @property
    @abstractmethod
    def _is_save_due(self) -> bool:
        """True if a checkpoint is due after the last update."""

    @abstractmethod
    def _step(self) -> None:
        """Make one update."""

    @abstractmethod
    def _save(self) -> None:
        """Write a checkpoint."""

    def _reserved(self) -> AbstractContextManager[None]:
        """Return a context in which no other run writes checkpoints of the prefix."""
        return nullcontext()

    def _before_step(self) -> None:  # noqa: B027 - most need nothing
        """Do what is due before an update."""

    def _settle(self) -> None:  # noqa: B027 - most need nothing
        """Wait for the updates on their way."""

    def _finish(self, *, is_whole: bool) -> None:  # noqa: B027 - most need nothing
        """Do what is due at the end of a run; one that was stopped is not whole."""

    def stop(self, status: int = INTERRUPTED) -> None:
        """Ask the run to write a checkpoint and stop after the present update.

        Args:
            status: ``INTERRUPTED`` for Ctrl-C, or ``PREEMPTED`` where the machine is taken away: then a
                checkpoint is written even if the end of the run makes none.
        """
        self.stopped_by = max(self.stopped_by, status)

    def run(self) -> bool:
        """Train to the end; say whether it was reached, or the run was stopped.

        Raises:
            RunError: The loss is no number any more, or a checkpoint cannot be written.
            SourceError: A record cannot be read.
            UsageError: Another run is writing the checkpoints of this one's prefix.
        """
        with self._reserved():
            is_whole = self._steps()
            self._settle()
            is_due = self._checkpoints.at_end or (self.stopped_by == PREEMPTED and self._checkpoints.interval)
            if is_due and self._saved_at != self.iteration:
                self._save_now()
            self._finish(is_whole=is_whole)
        return is_whole

    def _steps(self) -> bool:
        if self._checkpoints.at_start and not self.iteration and not self.is_over:
            self._save_if_due()
        while not self.is_over:
            if self.stopped_by:
                return False
            self._before_step()
            self._step()
            self._save_if_due()
        return True

    def _save_if_due(self) -> None:
        if self._is_save_due:
            self._save_now()

    def _save_now(self) -> None:
        self._saved_at = self.iteration
        self._save()


class Stoppable(Protocol):
    """A run that signals stop; see ``Loop``."""

    @property
    def stopped_by(self) -> int:
        """The exit status that asked it to stop; 0 if none did."""

    @property
    def is_over(self) -> bool:
        """True if no update is left."""

    def stop(self, status: int = ...) -> None:
        """Ask it to stop after the present update."""


@contextmanager
def stopping(run: Stoppable, stop_signal: str = "TERM") -> Iterator[None]:
    """Make the first Ctrl-C stop a run cleanly, and SIGTERM or another signal end the process after it.

    Clusters send SIGTERM before they take a machine away. A second Ctrl-C stops at once.

    Args:
        run: The run.
        stop_signal: Name of a further signal that is taken for SIGTERM, one of ``STOP_SIGNALS``.

    Raises:
        SystemExit: The run was stopped by such a signal, on any rank; the status is ``PREEMPTED``.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, before[signal.SIGINT])
            run.stop()
        else:
            run.stop(PREEMPTED)

    numbers = {signal.SIGINT, signal.SIGTERM, getattr(signal, f"SIG{stop_signal}")}
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if run.stopped_by == PREEMPTED and not run.is_over:
        raise SystemExit(PREEMPTED)
