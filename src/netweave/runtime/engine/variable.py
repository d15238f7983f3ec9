"""A variable: the name for something that tasks share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.runtime.engine.dependency_engine import Engine
    from netweave.runtime.engine.task import Task


class Variable:
    """Something that tasks read and write: a tensor, a random generator, a file, an order to keep.

    It holds no value; tasks reach the thing itself in their own way. It belongs to the engine in which it
    is first used. Two variables are never equal.

    Args:
        name: For traces and messages.
    """

    __slots__ = ("_engine", "_readers", "_writer", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._engine: Engine | None = None
        # The last pushed task that writes, while it is unfinished, or failed and nobody was told.
        self._writer: Task | None = None
        # Unfinished tasks that read, pushed after that writer.
        self._readers: set[Task] = set()

    def __repr__(self) -> str:
        return f"Variable({self.name!r})"
