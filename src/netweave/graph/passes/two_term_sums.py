"""Sums of two terms as additions: Caffe's Eltwise and ONNX's Sum add any number, most code adds two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph.passes.rewrite import Pass, Rewriter

if TYPE_CHECKING:
    from netweave.graph import Graph


@Pass
def two_term_sums(graph: Graph) -> None:
    """Put an Add in the place of every Sum of two terms; both broadcast alike."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Sum") and len(node.inputs) == 2:
            old = node.outputs[0]
            new = rewriter.replace([node], "Add", node.inputs, {}).outputs[0]
            new.type, new.shape = old.type, old.shape
