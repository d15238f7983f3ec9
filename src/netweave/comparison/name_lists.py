"""Names in a sentence: a few are listed, of many it is said how many more they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_NAMES = 4
"""Names that a sentence lists; more are not read but skipped over."""


def list_names(names: Iterable[str]) -> str:
    """Return names for a sentence.

    >>> list_names(["conv1", "conv2"]), list_names("abcdef")
    ('conv1, conv2', 'a, b, c, d and 2 more')
    """
    names = list(dict.fromkeys(names))
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more} more" if more > 0 else "")


def list_stretch(names: Iterable[str]) -> str:
    """Return the names of layers that follow one another.

    >>> list_stretch(["conv1", "conv2"]), list_stretch("abcdef")
    ('conv1, conv2', 'a to f (6 layers)')
    """
    names = list(dict.fromkeys(names))
    return ", ".join(names) if len(names) <= MAX_NAMES else f"{names[0]} to {names[-1]} ({len(names)} layers)"
