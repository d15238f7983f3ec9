"""The part of a net that can be read, for callers who need no more: up to what is not supported.

A comparison up to a layer (``--to``) must not fail over a last layer that comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from netweave.graph.summary import names_text

T = TypeVar("T")


def split_readable(
    items: Iterable[T],
    *,
    is_unknown: Callable[[T], bool],
    reads: Callable[[T], Iterable[Hashable]],
    makes: Callable[[T], Iterable[Hashable]],
) -> tuple[list[T], list[T]]:
    """Divide layers into those that can be read and the others: unknown ones, and all that need them.

    Args:
        items: The layers, in the order in which they run.
        is_unknown: Whether a layer is of a type that is not read.
        reads: The values that a layer reads.
        makes: The values that it makes; one that was made before is another value from then on.
    """
    readable, rest = list[T](), list[T]()
    gone: set[Hashable] = set()
    for item in items:
        if is_unknown(item) or not gone.isdisjoint(reads(item)):
            rest.append(item)
            gone.update(makes(item))
        else:
            readable.append(item)
            gone.difference_update(makes(item))
    return readable, rest


def left_out_note(names: Sequence[str], *, noun: str) -> str:
    """Return the note on layers that were left out.

    Args:
        names: Their names, the one that is not supported first.
        noun: What the framework calls them.
    """
    count = f"{len(names)} {noun}{'' if len(names) == 1 else 's'}"
    return f"{count} left out that cannot be read, or need one that cannot: {names_text(names)}"
