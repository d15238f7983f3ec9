"""Splits as slices: PyTorch's code indexes where Caffe, MXNet and TensorFlow split."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.pieces import Piece, axis_of
from netweave.graph.passes.rewrite import Pass, Rewriter

if TYPE_CHECKING:
    from netweave.graph import Graph


@Pass
def cut_splits(graph: Graph) -> None:
    """Put a Slice for each output of a Split that somebody reads, where its place is known."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Split"):
            _cut(rewriter, node)


def _cut(rewriter: Rewriter, split: ir.Node) -> None:
    axis = axis_of(split)
    used = [value for value in split.outputs if value.uses() or value.is_graph_output()]
    pieces = [Piece.of(value, axis) for value in used] if axis is not None else []
    if not pieces or any(piece.source is None for piece in pieces):
        return
    for piece in pieces:
        numbers = [
            rewriter.initializer(ir.Tensor(np.array([number], np.int64)), f"{piece.value.name}/{what}")
            for what, number in (("begin", piece.begin), ("end", piece.end), ("axis", axis))
        ]
        new = rewriter.insert(split, "Slice", [piece.source, *numbers]).outputs[0]
        new.type, new.shape = piece.value.type, piece.value.shape
        rewriter.take_over(piece.value, new)
    rewriter.graph.model.graph.remove(split, safe=True)


def num_splits(graph: Graph) -> int:
    """Return how many Splits a graph has."""
    return sum((node.domain, node.op_type) == ("", "Split") for node in graph.nodes)
