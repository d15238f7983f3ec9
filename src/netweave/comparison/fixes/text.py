"""Shared parts of all text editors: positions of changes, and reasons why one cannot be made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.comparison import Edit


class NotAppliedError(Exception):
    """A fix cannot be applied; the message says why, for the user."""


class SeveralCallsError(NotAppliedError):
    """A line has several calls that may make the layer."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A stretch of a text, and what stands there instead.

    Attributes:
        start: Its first character.
        end: The first character after it.
        text: What is written.
    """

    start: int
    end: int
    text: str


def replaced(text: str, changes: Iterable[Replacement]) -> str:
    """Return a text with changes made; stretches do not overlap."""
    for change in sorted(changes, key=lambda change: change.start, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def in_order_of(edit: Edit) -> list[int]:
    """Return the places, from 0, that an edit of the order of inputs gives."""
    return [int(place) - 1 for place in edit.value.split(",")]


def permuted(items: Sequence[str], order: Sequence[int]) -> list[str]:
    """Return items in another order.

    Raises:
        NotAppliedError: There are more or fewer.
    """
    if sorted(order) != list(range(len(items))):
        raise NotAppliedError(f"the layer has {len(items)} inputs in the file and {len(order)} in the net")
    return [items[place] for place in order]


def start_of_line(text: str, line: int) -> int:
    """Return where a line begins; lines count from 1.

    Raises:
        NotAppliedError: The text has fewer lines.
    """
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            raise NotAppliedError(f"the file has no line {line}; it is not the one that was compared")
    return start


def line_end(text: str) -> str:
    """Return how a text ends its lines."""
    return "\r\n" if "\r\n" in text else "\n"
