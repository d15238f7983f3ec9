"""The log of a comparison: its stages with their times, and notes for the reader."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.stopwatch import Stopwatch

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(slots=True)
class StageLog:
    """Times and notes of one comparison.

    Attributes:
        progress: Called with the name of each stage as it begins.
        clock: Takes the time of the stages.
        notes: What the reader of the result should know, one sentence each.
    """

    progress: Progress = field(default=lambda stage: None)
    clock: Stopwatch = field(default_factory=Stopwatch)
    notes: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage, by name."""
        return self.clock.seconds

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Announce a stage, and take its time."""
        self.progress(name)
        with self.clock.time(name):
            yield

    def note(self, text: str) -> None:
        """Note a sentence, once: several runs may have the same to say."""
        if text not in self.notes:
            self.notes.append(text)
