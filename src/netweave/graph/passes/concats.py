"""Concatenations that need not be: each is a copy of everything it joins."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import known_shape
from netweave.graph.passes.pieces import Piece, axis_of
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

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


@Pass
def flatten_concats(graph: Graph) -> None:
    """Let a concatenation read what another one reads along the same axis, instead of what that makes.

    The other one becomes part of it if nothing else reads it. Then it does not matter whether a net joins all
    branches at once or one after the other.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Concat"):
            flat = _flattened(rewriter, node)
            axis = axis_of(flat)
            values = [read for value in flat.inputs for read in _read_by(value, axis)]
            if axis is not None and len(values) > len(flat.inputs):
                rewriter.replace([flat], "Concat", values, {"axis": axis})


def _read_by(value: ir.Value | None, axis: int | None) -> Sequence[ir.Value | None]:
    """Return what a value is joined of along an axis: itself, if no concatenation along the axis makes it."""
    maker = value.producer() if value is not None else None
    is_joined = (
        maker is not None and (maker.domain, maker.op_type) == ("", "Concat") and axis_of(maker) == axis
    )
    return maker.inputs if maker is not None and is_joined else [value]


def _flattened(rewriter: Rewriter, node: ir.Node) -> ir.Node:
    """Take the concatenations in that only this one reads."""
    axis = axis_of(node)
    inner = [
        maker
        for value in node.inputs
        if value is not None and has_one_reader(value) and (maker := value.producer()) is not None
        if (maker.domain, maker.op_type) == ("", "Concat") and axis_of(maker) == axis
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
    axis = axis_of(node)
    if axis is None or None in node.inputs:
        return
    runs: list[list[Piece]] = []
    for value in node.inputs:
        assert value is not None
        piece = Piece.of(value, axis)
        if runs and runs[-1][-1].is_followed_by(piece):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    values = [_joined(rewriter, node, run, axis) for run in runs]
    if len(values) == 1 and rewriter.bypass(node, values[0]):
        return
    if len(values) < len(node.inputs):
        rewriter.replace([node], "Concat", values, {"axis": axis})


def _joined(rewriter: Rewriter, before: ir.Node, run: Sequence[Piece], axis: int) -> ir.Value:
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
