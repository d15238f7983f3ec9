"""Activations behind a concatenation as one in front of each of its parts, which compute the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import attributes_of, layer_keys, set_layer_keys
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph

ELEMENTWISE = frozenset({"Elu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Relu", "Sigmoid", "Tanh"})
"""Activations of one input, which know nothing of channels."""


@Pass
def spread_activations(graph: Graph) -> None:
    """Put an activation that alone reads a concatenation in front of each part instead.

    Inception's blocks are written in both ways. The parts keep what is wrong with one of them apart.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        concat = _concat_before(node)
        if concat is not None:
            _spread(rewriter, node, concat)


def num_behind_concats(graph: Graph) -> int:
    """Return how many activations would be spread."""
    return sum(_concat_before(node) is not None for node in graph.nodes)


def num_before_concats(graph: Graph) -> int:
    """Return how many concatenations have an activation in front of a part."""
    joined = [node for node in graph.nodes if (node.domain, node.op_type) == ("", "Concat")]
    makers = [[value.producer() for value in node.inputs if value is not None] for node in joined]
    return sum(
        any(node and not node.domain and node.op_type in ELEMENTWISE for node in row) for row in makers
    )


def _is_activation(node: ir.Node | None) -> bool:
    return node is not None and not node.domain and node.op_type in ELEMENTWISE


def _concat_before(node: ir.Node) -> ir.Node | None:
    if not _is_activation(node) or node.inputs[0] is None:
        return None
    value = node.inputs[0]
    maker = value.producer() if has_one_reader(value) else None
    return maker if maker is not None and (maker.domain, maker.op_type) == ("", "Concat") else None


def _spread(rewriter: Rewriter, activation: ir.Node, concat: ir.Node) -> None:
    parts = []
    for value in concat.inputs:
        part = rewriter.insert(activation, activation.op_type, [value], attributes_of(activation)).outputs[0]
        part.type, part.shape = (value.type, value.shape) if value is not None else (None, None)
        parts.append(part)
    joined = rewriter.insert(activation, "Concat", parts, attributes_of(concat))
    set_layer_keys(joined, layer_keys(concat))
    joined.outputs[0].type, joined.outputs[0].shape = concat.outputs[0].type, concat.outputs[0].shape
    rewriter.take_over(activation.outputs[0], joined.outputs[0])
    for node in (activation, concat):
        rewriter.graph.model.graph.remove(node, safe=True)
