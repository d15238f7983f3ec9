"""What is said of a comparison while it goes on: its stages with their times, and notes for the reader."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

Progress = Callable[[str], None]
"""Called with the name of each stage as it begins."""


@dataclass(slots=True)
class StageLog:
    """Times and notes of one comparison.

    Attributes:
        progress: Called with the name of each stage as it begins.
        seconds: Time of each stage, by name.
        notes: What the reader of the result should know, one sentence each.
    """

    progress: Progress = field(default=lambda stage: None)
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Take the time of a stage; of one that begins again, add it up."""
        self.progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def note(self, text: str) -> None:
        """Note a sentence, once: several runs may have the same to say."""
        if text not in self.notes:
            self.notes.append(text)
