"""A stopwatch for the stages of a comparison."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Stopwatch:
    """Takes the time of stages; what is taken inside of another stage does not count for that one.

    Attributes:
        seconds: Time of each stage, by name; the sum is the time that passed in all of them.
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _of_inner: float = 0.0

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        """Take the time of a stage; of one that begins again, add it up."""
        self.seconds.setdefault(name, 0.0)
        before, self._of_inner = self._of_inner, 0.0
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = time.perf_counter() - start
            self.seconds[name] += elapsed - self._of_inner
            self._of_inner = before + elapsed
