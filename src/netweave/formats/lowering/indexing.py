"""Parts of a tensor as Python and NumPy write them, in the terms of ONNX's Slice, Squeeze and Unsqueeze."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import EllipsisType

FAR = 2**31 - 1
"""An end of a slice that stands for the end of the axis."""

LARGEST, SMALLEST = 2**63 - 1, -(2**63)
"""Ends of a slice of ONNX behind the last element, and, for one that runs backwards, before the first."""

Index = slice | int | EllipsisType | None
"""What one place of an index may hold."""


@dataclass(frozen=True, slots=True)
class Part:
    """The elements that one part of an index selects.

    Attributes:
        bounds: Begin, end and step of each axis that is not taken as a whole.
        removed: Axes that a single number takes away.
        added: Axes of size 1 that the result has besides, counted in the result.
    """

    bounds: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    removed: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)


def part_of(items: Sequence[Index], rank: int) -> Part:
    """Return what an index takes of a tensor.

    Args:
        items: The index, as in ``x[:, 1:3, 0, None]``.
        rank: Number of axes of the tensor.

    >>> part_of([slice(None), slice(1, 3), 0, None], 3)
    Part(bounds={1: (1, 3, 1), 2: (0, 1, 1)}, removed=[2], added=[2])
    """
    num_unnamed = rank - sum(item is not None and item is not ... for item in items)
    part = Part()
    axis = place = 0  # of the tensor, and of the result
    for item in items:
        if item is None:
            part.added.append(place)
            place += 1
        elif isinstance(item, EllipsisType):
            axis, place = axis + num_unnamed, place + num_unnamed
        elif isinstance(item, slice):
            if (item.start, item.stop, item.step or 1) != (None, None, 1):
                part.bounds[axis] = _bounds(item)
            axis, place = axis + 1, place + 1
        else:
            part.bounds[axis] = (item, item + 1 if item != -1 else FAR, 1)
            part.removed.append(axis)
            axis += 1
    return part


def _bounds(item: slice) -> tuple[int, int, int]:
    step = item.step or 1
    begin, end = (0, FAR) if step > 0 else (FAR, -FAR)
    return begin if item.start is None else item.start, end if item.stop is None else item.stop, step
