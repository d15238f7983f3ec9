"""The flat layout: all trained parameters in one row, cut into slices of equal size behind the first few.

A slice is what is updated, summed over devices, sent, and owned as one. The layout is a pure function of the
net and its solver, the same on every device and for every number of ranks and stages, so that no bit depends
on timing; checkpoints keep it. Within a parameter elements stand as they lie in a net's memory, which is the
same on all devices too (filters have their channels last).
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

SLICE_ELEMENTS = 1 << 20
"""Elements of a slice: 4 MB in float32, some 0.5 ms of an update, so that a task costs little beside it."""

FIRST_ELEMENTS = (1 << 16, 1 << 18)
"""Where the first slice is cut once more, unless slices are as small anyway. Its gradients are the last to be
there, and the next forward pass begins with its parameters: what waits for them waits for a slice as a whole.
"""

ALIGNED_ELEMENTS = 64
"""A parameter begins at a multiple of this. A cut then falls between whole vectors of any processor, whose
kernels round the last, incomplete vector of a run otherwise than the others."""


@dataclass(frozen=True, slots=True)
class Span:
    """Some elements of a parameter, in the order in which they lie in memory.

    Attributes:
        key: The parameter.
        start: The first element.
        stop: The one after the last.
    """

    key: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FlatLayout:
    """Positions of the parameters, and the elements of each slice.

    Attributes:
        offsets: Place of each parameter's first element in the row, by key, in order.
        slices: The elements of each slice.
        slice_elements: Most elements of a slice; 0 where no slice cuts a parameter.
    """

    offsets: Mapping[str, int]
    slices: tuple[tuple[Span, ...], ...]
    slice_elements: int

    def slices_of(self, key: str) -> tuple[int, ...]:
        """Return the numbers of the slices that hold elements of a parameter."""
        return tuple(
            number for number, spans in enumerate(self.slices) if any(span.key == key for span in spans)
        )

    def to_json(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"offsets": dict(self.offsets), "slice_elements": self.slice_elements}


def flat_layout(
    sizes: Mapping[str, int], *, slice_elements: int = SLICE_ELEMENTS, whole_parameters: bool = False
) -> FlatLayout:
    """Return the layout of parameters: slices of one size, but smaller ones at the beginning.

    Args:
        sizes: Elements of each parameter by key, in order.
        slice_elements: Most elements of a slice, a multiple of 64.
        whole_parameters: Let no slice cut a parameter; one may then have more elements.

    Raises:
        UsageError: The size of a slice is no such multiple.

    >>> [len(spans) for spans in flat_layout({"a": 100, "b": 30, "c": 5}, slice_elements=128).slices]
    [1, 2]
    """
    if slice_elements < ALIGNED_ELEMENTS or slice_elements % ALIGNED_ELEMENTS:
        raise UsageError(f"a slice has {slice_elements} elements, expected a multiple of {ALIGNED_ELEMENTS}")
    offsets: dict[str, int] = {}
    end = 0
    for key, size in sizes.items():
        offsets[key] = end
        end += -(-size // ALIGNED_ELEMENTS) * ALIGNED_ELEMENTS
    borders = [first for first in FIRST_ELEMENTS if first < slice_elements]
    borders += range(slice_elements, end + slice_elements, slice_elements)
    rows: dict[int, list[Span]] = {}
    for key, size in sizes.items():
        offset = offsets[key]
        start = 0
        while start < size:
            number = bisect_right(borders, offset if whole_parameters else offset + start)
            stop = size if whole_parameters else min(size, borders[number] - offset)
            rows.setdefault(number, []).append(Span(key, start, stop))
            start = stop
    slices = tuple(tuple(rows[number]) for number in sorted(rows))
    return FlatLayout(offsets, slices, 0 if whole_parameters else slice_elements)
