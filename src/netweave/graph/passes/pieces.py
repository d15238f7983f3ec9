"""Pieces of values: what Split and Slice cut out along one axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.graph import known_shape

if TYPE_CHECKING:
    import onnx_ir as ir


_LARGE = 1 << 31
"""An end from here on is that of any axis, as exporters write it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Elements ``begin`` to ``end`` of a value along an axis, or a value that is no piece of another."""

    value: ir.Value
    source: ir.Value | None = None
    begin: int = 0
    end: int = 0

    @classmethod
    def of(cls, value: ir.Value, axis: int) -> Piece:
        """Return what a value is a piece of, if it is one along this axis."""
        maker = value.producer()
        if maker is None or maker.domain or maker.inputs[0] is None:
            return cls(value)
        shape = known_shape(maker.inputs[0])
        size = shape[axis] if shape is not None and axis < len(shape) else None
        span = None
        if size is not None and maker.op_type == "Split" and axis_of(maker) == axis:
            span = _span_of_split(maker, value, axis)
        elif size is not None and maker.op_type == "Slice":
            span = _span_of_slice(maker, axis, size)
        return cls(value) if span is None else cls(value, maker.inputs[0], *span)

    def is_followed_by(self, other: Piece) -> bool:
        """Return whether another piece is the next of the same value."""
        return self.source is not None and self.source is other.source and self.end == other.begin


def _span_of_split(split: ir.Node, piece: ir.Value, axis: int) -> tuple[int, int] | None:
    begin = 0
    for value in split.outputs:
        shape = known_shape(value)
        size = shape[axis] if shape is not None else None
        if size is None:
            return None
        if value is piece:
            return begin, begin + size
        begin += size
    return None


def _span_of_slice(cut: ir.Node, axis: int, size: int) -> tuple[int, int] | None:
    """Read a Slice with constant bounds, by steps of one, that leaves the other axes as they are."""
    shape, bounds = known_shape(cut.inputs[0]), _bounds_of_slice(cut)
    if shape is None or bounds is None:
        return None
    span = (0, size)
    for begin, end, along, step in bounds:
        if step != 1:
            return None
        if along % len(shape) == axis:
            span = _bounded(begin, size), _bounded(end, size)
        elif begin != 0 or end < (_LARGE if (whole := shape[along]) is None else whole):
            return None
    return span if span[0] < span[1] else None


def _bounds_of_slice(cut: ir.Node) -> list[tuple[int, int, int, int]] | None:
    """Return begin, end, axis and step for each axis that a Slice names; None if they are not stored."""
    given = [value.const_value if value is not None else None for value in cut.inputs[1:]]
    present = [value is not None for value in cut.inputs[1:]]
    if any(there and array is None for there, array in zip(present, given, strict=True)):
        return None
    rows = [[int(number) for number in array.numpy().ravel()] if array is not None else [] for array in given]
    count = len(rows[0])
    axes = rows[2] if len(rows) > 2 and rows[2] else list(range(count))
    steps = rows[3] if len(rows) > 3 and rows[3] else [1] * count
    return list(zip(rows[0], rows[1], axes, steps, strict=True))


def _bounded(position: int, size: int) -> int:
    return min(max(position + size if position < 0 else position, 0), size)


def axis_of(node: ir.Node) -> int | None:
    """Return the axis of a Concat or a Split, counted from the first; None if that is not known."""
    shape = known_shape(node.outputs[0])
    axis = node.attributes.get_int("axis", 0)
    if axis < 0:
        return axis + len(shape) if shape is not None else None
    return axis
