"""Mismatches that are the operator itself, or the order of its inputs."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named
from netweave.comparison.explain.wording import OPERATORS_IN_WORDS, input_order, operator
from netweave.comparison.metric import constants_of, num_signals
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph

MAX_ORDERED = 4
"""Nodes with more inputs are not tried in other orders."""

NAMES = OPERATORS_IN_WORDS | {"LRN": "LRN across channels", "ChannelLRN": "LRN within each channel"}
"""Names of operators whose own names do not tell them apart, or are not the usual ones."""


def operator_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's operator where one node stands against one of another operator."""
    if len(case.nodes_a) != 1 or len(case.nodes_b) != 1:
        return
    (node_a,), (node_b,) = case.nodes_a, case.nodes_b
    if node_a.op_type == node_b.op_type or num_signals(node_a) != num_signals(node_b):
        return
    yield Proposal(
        mismatch="operator",
        cause=f"A computes {operator_name(node_a)}, B computes {operator_name(node_b)}",
        fix=operator(case.b.graph.format, node_a, node_b) or f"compute {operator_name(node_a)}",
        node_a=node_a,
        node_b=node_b,
        change=_Become(node_b.name, node_a),
    )


def input_order_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose other orders of the inputs of nodes for which the order matters."""
    for node_a, node_b in case.pairs():
        count = num_signals(node_b)
        if (
            node_b.op_type not in {"Attention", "Concat", "Sub", "Div", "Pow", "MatMul"}
            or not 2 <= count <= MAX_ORDERED
        ):
            continue
        if node_a.op_type != node_b.op_type or count != len(node_b.inputs):
            continue
        for order in itertools.islice(itertools.permutations(range(count)), 1, None):
            yield Proposal(
                mismatch="input-order",
                cause=f"the inputs of {operator_name(node_b)} stand in another order in B than in A",
                fix=input_order(order),
                node_a=node_a,
                node_b=node_b,
                change=_Reorder(node_b.name, order),
            )


def operator_name(node: ir.Node) -> str:
    """Return what people call what a node computes."""
    alpha = attributes_of(node).get("alpha")
    if node.op_type == "LeakyRelu" and alpha:
        return f"LeakyRelu({alpha:.6g})"
    return NAMES.get(node.op_type, node.op_type)


class _Become:
    """Makes a node of a subgraph do what A's node does."""

    def __init__(self, node: str | None, model: ir.Node) -> None:
        self._node, self._model = node, model

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        signals = [value for value in node.inputs if value is not None and not value.is_initializer()]
        stored = constants_of(self._model)
        inputs: list[ir.Value | None] = []
        for index, value in enumerate(self._model.inputs):
            if index in stored and stored[index].const_value is not None:
                copy = ir.Value(
                    name=f"{self._node}/A{index}",
                    shape=stored[index].shape,
                    type=stored[index].type,
                    const_value=stored[index].const_value,
                )
                graph.model.graph.register_initializer(copy)
                inputs.append(copy)
            else:
                inputs.append(signals.pop(0) if value is not None and signals else None)
        node.resize_inputs(len(inputs))
        for index, value in enumerate(inputs):
            node.replace_input_with(index, value)
        node.op_type, node.domain = self._model.op_type, self._model.domain
        node.attributes.clear()
        node.attributes.update(dict(self._model.attributes.items()))


class _Reorder:
    """Puts the inputs of a node of a subgraph in another order."""

    def __init__(self, node: str | None, order: tuple[int, ...]) -> None:
        self._node, self._order = node, order

    def __call__(self, graph: Graph) -> None:
        node = node_named(graph, self._node)
        old = list(node.inputs)
        for index, source in enumerate(self._order):
            node.replace_input_with(index, old[source])
