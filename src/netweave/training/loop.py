"""The loop of a training: updates one after another, and checkpoints between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from netweave.job import Checkpoints


class Loop(ABC):
    """A run that may be stopped between two updates, and resumed from its checkpoints.

    Args:
        checkpoints: Which checkpoints it writes.

    Attributes:
        iteration: Updates done; those on their way count.
    """

    def __init__(self, checkpoints: Checkpoints) -> None:
        self.iteration = 0
        self._checkpoints = checkpoints
        self._stop = False
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

    def stop(self) -> None:
        """Ask the run to write a checkpoint and stop after the present update."""
        self._stop = True

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
            if self._checkpoints.at_end and self._saved_at != self.iteration:
                self._save()
            self._finish(is_whole=is_whole)
        return is_whole

    def _steps(self) -> bool:
        if self._checkpoints.at_start and not self.iteration and not self.is_over:
            self._save_if_due()
        while not self.is_over:
            if self._stop:
                return False
            self._before_step()
            self._step()
            self._save_if_due()
        return True

    def _save_if_due(self) -> None:
        if self._is_save_due:
            self._saved_at = self.iteration
            self._save()
