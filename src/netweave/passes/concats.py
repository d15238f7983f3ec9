"""Concatenations that need not be: each is a copy of everything it joins."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import known_shape
from netweave.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph


@Pass
def remove_concats(graph: Graph) -> None:
    """Remove concatenations that can be said without.

    - One that only another concatenation along the same axis reads becomes part of that.
    - Neighbouring pieces of a value, cut by Split or Slice, that are joined again in order are that value, or
      one larger piece of it.
    - One of a single value is that value; its name is an alias.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Concat"):
            _simplify(rewriter, _flattened(rewriter, node))


def _flattened(rewriter: Rewriter, node: ir.Node) -> ir.Node:
    """Take the concatenations in that only this one reads."""
    axis = _axis_of(node)
    inner = [
        maker
        for value in node.inputs
        if value is not None and has_one_reader(value) and (maker := value.producer()) is not None
        if (maker.domain, maker.op_type) == ("", "Concat") and _axis_of(maker) == axis
    ]
    if axis is None or not inner:
        return node
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        inputs.extend(maker.inputs if maker in inner and maker is not None else [value])
    return rewriter.replace([*inner, node], "Concat", inputs, {"axis": axis})


def _simplify(rewriter: Rewriter, node: ir.Node) -> None:
    """Join neighbouring pieces of one value, and remove a concatenation of one."""
    axis = _axis_of(node)
    if axis is None or None in node.inputs:
        return
    runs: list[list[_Piece]] = []
    for value in node.inputs:
        assert value is not None
        piece = _Piece.of(value, axis)
        if runs and runs[-1][-1].is_followed_by(piece):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    values = [_joined(rewriter, node, run, axis) for run in runs]
    if len(values) == 1 and rewriter.bypass(node, values[0]):
        return
    if len(values) < len(node.inputs):
        rewriter.replace([node], "Concat", values, {"axis": axis})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Elements ``begin`` to ``end`` of a value along an axis, or a value that is no piece of another."""

    value: ir.Value
    source: ir.Value | None = None
    begin: int = 0
    end: int = 0

    @classmethod
    def of(cls, value: ir.Value, axis: int) -> _Piece:
        """Return what a value is a piece of, if it is one along this axis."""
        maker = value.producer()
        if maker is None or maker.domain or maker.inputs[0] is None:
            return cls(value)
        shape = known_shape(maker.inputs[0])
        size = shape[axis] if shape is not None and axis < len(shape) else None
        span = None
        if size is not None and maker.op_type == "Split" and _axis_of(maker) == axis:
            span = _span_of_split(maker, value, axis)
        elif size is not None and maker.op_type == "Slice":
            span = _span_of_slice(maker, axis, size)
        return cls(value) if span is None else cls(value, maker.inputs[0], *span)

    def is_followed_by(self, other: _Piece) -> bool:
        """Whether another piece is the next of the same value."""
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
    """Read a Slice with constant bounds along this axis alone, by steps of one."""
    numbers = [0, 0, 0, 1]  # begin, end, axis and step
    for index, value in enumerate(cut.inputs[1:]):
        if value is None:
            continue
        if value.const_value is None or value.const_value.size != 1:
            return None
        numbers[index] = int(value.const_value.numpy().item())
    begin, end, along, step = numbers
    shape = known_shape(cut.inputs[0])
    if shape is None or along % len(shape) != axis or step != 1:
        return None
    begin, end = _bounded(begin, size), _bounded(end, size)
    return (begin, end) if begin < end else None


def _bounded(position: int, size: int) -> int:
    return min(max(position + size if position < 0 else position, 0), size)


def _joined(rewriter: Rewriter, before: ir.Node, run: Sequence[_Piece], axis: int) -> ir.Value:
    """Return one value for pieces that follow one another."""
    first, last = run[0], run[-1]
    source = first.source
    if len(run) == 1 or source is None:
        return first.value
    assert all(one.is_followed_by(other) for one, other in pairwise(run))
    shape = known_shape(source)
    if shape is not None and (first.begin, last.end) == (0, shape[axis]):
        return source
    numbers = [
        rewriter.initializer(ir.Tensor(np.array([number], np.int64)), f"{first.value.name}/{what}")
        for what, number in (("begin", first.begin), ("end", last.end), ("axis", axis))
    ]
    return rewriter.insert(before, "Slice", [source, *numbers]).outputs[0]


def _axis_of(node: ir.Node) -> int | None:
    """Return the axis that a Concat or a Split works along, counted from the first."""
    shape = known_shape(node.outputs[0])
    axis = node.attributes.get_int("axis", 0)
    if axis < 0:
        return axis + len(shape) if shape is not None else None
    return axis
