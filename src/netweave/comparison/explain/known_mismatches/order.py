"""Orders of channels that later layers do not follow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal
from netweave.comparison.explain.known_mismatches.views import num_shuffled, shuffle_proposal, views_before
from netweave.comparison.explain.wording import in_order_of_a as in_words_of_order

if TYPE_CHECKING:
    import onnx_ir as ir

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
    while len(moved) == 1 and moved[0] in case.b.producer:
        signal = moved[0]
        node = case.b.producer[signal]
        moved = _moved(case, node)
    if node is reader or moved or node.op_type in LAYOUTS:
        return None
    made_a = case.a.producer.get(case.known[signal].a)
    if made_a is None:
        return None
    views_a, views_b = views_before(made_a), views_before(node)
    if num_shuffled(views_a) != num_shuffled(views_b):
        return replace(shuffle_proposal(case, (made_a, node), views_a, views_b), change=unchanged)
    joined = node.op_type == "Concat"
    layers = case.b.graph.layers_of(reader)
    parts_b = [pair.a if (pair := case.known.get(part)) else None for part in case.b.inputs_of(node)]
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
