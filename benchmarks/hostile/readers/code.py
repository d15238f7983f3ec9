"""Models that are code: what a guarded child process reads, and what it answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.hostile.readers.reader import Reader


def readers() -> list[Reader]:
    """Return the readers."""
    return []
