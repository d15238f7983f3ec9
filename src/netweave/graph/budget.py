"""Limits on what a file may declare and on computing it: one place for all readers.

A few bytes describe an array of any size: by its sizes, by a value that fills it, or by an operator that
repeats it. What is *stored* in a file is bounded by the file and is not counted here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_ELEMENTS = 2**31 - 1
"""No tensor may have more elements: the limit of the sources, and of what a runtime can index."""

MAX_AXES = 64
"""No tensor may have more axes: NumPy's limit."""

MAX_COMPUTED = 1 << 20
"""A constant with more elements is computed ahead of time only if it is no larger than what it is made of."""

MAX_COMPUTED_IN_ALL = 1 << 23
"""Elements that the constants of one net may grow by together; what would grow beyond stays a node."""

MAX_FILLED = 1 << 25
"""Elements of one array that a file gives by a few values, the last of which fills the rest."""

MAX_LISTED = 1 << 16
"""Elements of a constant that are taken as Python's numbers: axes, sizes and settings."""

MAX_FOLLOWED = 1 << 10
"""Elements of a vector that are followed one by one while shapes are inferred, since they may be sizes."""


def num_elements(sizes: Iterable[int]) -> int | None:
    """Return the number of elements of an array; None if no array may have these sizes.

    The product is not formed beyond the limit: a million sizes of 2**40 would make a number of 5 MB, in
    minutes. Sizes beside a zero count as well, since one that is set later replaces the zero.

    Args:
        sizes: Whole numbers.

    >>> num_elements([3, 0, 5]), num_elements([]), num_elements([2**20, 2**20]), num_elements([-1])
    (0, 1, None, None)
    """
    count, is_empty = 1, False
    for axis, size in enumerate(sizes):
        if axis >= MAX_AXES or size < 0:
            return None
        is_empty = is_empty or size == 0
        count *= size or 1
        if count > MAX_ELEMENTS:
            return None
    return 0 if is_empty else count
