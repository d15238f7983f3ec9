"""Lifetimes of buffers: the first and the last step at which each is needed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Buffer:
    """One piece of memory.

    Attributes:
        name: What it holds, for people.
        kind: One of ``KINDS``.
        num_bytes: Its size.
        first: The step that allocates it, counted from 0.
        last: The last step that needs it, >= ``first``.
    """

    name: str
    kind: str
    num_bytes: int
    first: int
    last: int


KINDS = ("value", "gradient", "kept", "workspace", "parameter gradient")
"""Values of the net; gradients of values; what backward keeps beside values (indices, masks, statistics);
what a kernel needs while it runs; gradients of parameters."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The buffers of one run, or of one training step.

    Attributes:
        steps: What runs at each step: the name of a node, with ``forward``, ``recompute`` or ``backward``.
        buffers: All buffers.
        recompute_multiply_adds: Multiply-adds of what is computed a second time.
        recompute_bytes: Bytes that it reads and writes.
    """

    steps: Sequence[tuple[str, str]]
    buffers: Sequence[Buffer]
    recompute_multiply_adds: int = 0
    recompute_bytes: int = 0

    @property
    def total(self) -> int:
        """Bytes of all buffers, as if no memory were ever used again."""
        return sum(buffer.num_bytes for buffer in self.buffers)

    @property
    def peak(self) -> int:
        """The most bytes alive at once: no plan needs less."""
        return max(self.live_bytes(), default=0)

    def live_bytes(self) -> list[int]:
        """Return the bytes alive at each step."""
        changes = [0] * (len(self.steps) + 1)
        for buffer in self.buffers:
            changes[buffer.first] += buffer.num_bytes
            changes[buffer.last + 1] -= buffer.num_bytes
        return list(accumulate(changes[:-1]))

    def without(self, kind: str) -> Timeline:
        """Return the timeline without the buffers of one kind."""
        return self._with([buffer for buffer in self.buffers if buffer.kind != kind])

    def only(self, kind: str) -> Timeline:
        """Return the timeline with the buffers of one kind."""
        return self._with([buffer for buffer in self.buffers if buffer.kind == kind])

    def _with(self, rest: Sequence[Buffer]) -> Timeline:
        return Timeline(self.steps, rest, self.recompute_multiply_adds, self.recompute_bytes)
