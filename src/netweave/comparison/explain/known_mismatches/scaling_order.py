"""A scaling behind an activation in B that stands before it in A, where it may be folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.align.chains import only_reader
from netweave.comparison.align.weights import filters_of
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.known_mismatches.operators import operator_name
from netweave.comparison.metric import ELEMENTWISE, Signals, constants_of, family_of, num_signals
from netweave.graph.passes.rewriting import Rewriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


def scaling_behind_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose to apply at once what B's net applies to the filters of the group only behind an activation."""
    if not case.nodes_b or filters_of(case.nodes_b[0]) is None:
        return
    last = case.nodes_b[-1]
    behind = _behind(case.b, last)
    if behind is None:
        return
    activation, scaling = behind
    scales, acts = operator_name(scaling), operator_name(activation)
    yield Proposal(
        mismatch="layer-order",
        cause=f"B computes {scales} after {acts}, A before it",
        fix=f"put {scales} before {acts}",
        node_a=case.nodes_a[-1],
        node_b=scaling,
        change=_Scale(last.name, scaling),
    )


def _behind(signals: Signals, node: ir.Node) -> tuple[ir.Node, ir.Node] | None:
    """Return the activation that reads a node and the scaling that reads the activation, if they do."""
    activation = only_reader(signals, node)
    if activation is None or activation.op_type not in ELEMENTWISE or family_of(activation) == "affine":
        return None
    scaling = only_reader(signals, activation)
    if num_signals(activation) != 1 or scaling is None or family_of(scaling) != "affine":
        return None
    return activation, scaling


class _Scale:
    """Lets a subgraph apply a scaling to what a node of it makes."""

    def __init__(self, node: str | None, scaling: ir.Node) -> None:
        self._node, self._scaling = node, scaling

    def __call__(self, graph: Graph) -> None:
        node, scaling = node_named(graph, self._node), self._scaling
        output, rewriter = node.outputs[0], Rewriter(graph)
        inputs: list[ir.Value | None] = [None] * len(scaling.inputs)
        for index, value in constants_of(scaling).items():
            if value.const_value is not None:
                inputs[index] = rewriter.initializer(value.const_value, str(value.name))
        new = ir.Node("", scaling.op_type, inputs, attributes=list(scaling.attributes.values()))
        graph.model.graph.insert_after(node, new)
        rewriter.take_over(output, new.outputs[0])
        new.replace_input_with(inputs.index(None), output)
