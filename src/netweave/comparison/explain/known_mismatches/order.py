"""Known mismatches of order and of groups: of channels, axes and scalings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.comparison.align.chains import only_reader
from netweave.comparison.align.weights import filters_of
from netweave.comparison.explain.known_mismatches.attention import repeat_proposal
from netweave.comparison.explain.known_mismatches.attributes import differences, set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.folded import missing_factor
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, node_named, together
from netweave.comparison.explain.known_mismatches.operators import operator_name
from netweave.comparison.explain.known_mismatches.views import num_shuffled, shuffle_proposal, views_before
from netweave.comparison.explain.wording import in_groups, setting
from netweave.comparison.explain.wording import in_order_of_a as in_words_of_order
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import ELEMENTWISE, Signals, constants_of, family_of, num_signals
from netweave.graph.passes.rewriting import Rewriter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.comparison.layout.change import LayoutChange
    from netweave.graph import Graph


LAYOUTS = frozenset({"Flatten", "Reshape", "Transpose", "Squeeze"})
"""Operators that change the order of a layout; these are mismatches of their own."""


def reordered(case: Case, reader: ir.Node) -> Proposal | None:
    """Return what put the channels that a node of B reads in another order than A's; None if nothing did.

    The proposal changes nothing: what it proposes lies before the nodes of the case.
    """
    node, signal = reader, ""
    moved = _moved(case, node)
    while moved and moved[0] in case.b.producer:
        signal = moved[0]
        node = case.b.producer[signal]
        moved = _moved(case, node)
    if node is reader or moved or node.op_type in LAYOUTS:
        return None
    made_a = case.a.producer.get(case.known[signal].a)
    if made_a is None:
        return None
    repeated = repeat_proposal(made_a, node)
    if repeated is not None:
        return replace(repeated, change=unchanged)
    views_a, views_b = views_before(made_a), views_before(node)
    parts_b = [pair.a if (pair := case.known.get(part)) else None for part in case.b.inputs_of(node)]
    has_same_first = parts_b[:1] == case.a.inputs_of(made_a)[:1]  # else their views are of other signals
    if num_shuffled(views_a) != num_shuffled(views_b) and (has_same_first or None in parts_b):
        return replace(shuffle_proposal(case, (made_a, node), views_a, views_b), change=unchanged)
    joined = node.op_type == "Concat"
    layers = case.b.graph.layers_of(reader)
    return Proposal(
        mismatch="input-order" if joined else "channel-order",
        cause=f"the channels that {node.op_type} makes stand in another order in B than in A, and "
        f"{(layers[0].name if layers else reader.name)!r}, which reads them, does not follow",
        fix=in_words_of_order(node, case.a.inputs_of(made_a), parts_b)
        if joined
        else "put its channels in A's order",
        node_a=made_a,
        node_b=node,
        change=unchanged,
    )


def in_order_of_a(change: LayoutChange, x: np.ndarray) -> np.ndarray:
    """Return a tensor of A in B's layout with its entries in A's order."""
    if change.shape is not None:
        return x
    for axis, order in reversed(change.orders):
        if change.is_channel_axis(axis):  # the others are of images that are flipped as the input is
            x = np.take(x, np.argsort(order), axis=axis)
    return x


def _moved(case: Case, node: ir.Node) -> list[str]:
    """Return the signals that a node of B reads whose entries stand in another order than A's."""
    pairs = ((signal, case.known.get(signal)) for signal in case.b.inputs_of(node))
    return [signal for signal, pair in pairs if pair and pair.change and pair.change.channel_order]


def unchanged(graph: Graph) -> None:
    """Change nothing: what a proposal proposes lies before the nodes of the group."""
    del graph


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


def group_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's number of groups, and A's filters with it, where two convolutions have different ones."""
    for node_a, node_b in case.pairs():
        stored = constants_of(node_a).get(1)
        if node_a.op_type != node_b.op_type or stored is None or stored.const_value is None:
            continue
        apart = differences(node_a, node_b).get("group")
        if apart is None:
            continue
        filters = _filters(case, stored.const_value.numpy())
        yield Proposal(
            mismatch="group",
            cause=in_groups(*apart),
            fix=f"{setting(case.b.graph.format, node_b, 'group', apart[0])}, with A's filters",
            node_a=node_a,
            node_b=node_b,
            change=together(
                set_attribute(node_b.name, "group", apart[0]), replace_constant(node_b.name, 1, filters)
            ),
        )


def _filters(case: Case, filters: np.ndarray) -> np.ndarray:
    """Return A's filters as B's have to be, which may leave a part of them to the scalings that follow."""
    if filters.ndim == 4:
        filters = ORIENTATIONS[case.orientation](filters)
    factor = missing_factor(case)
    return filters if factor is None else filters * factor.reshape(-1, *[1] * (filters.ndim - 1))
