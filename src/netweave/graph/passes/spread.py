"""Grouped convolutions as branches: the other way round than ``branches``, to look into single groups."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.branches import FILTERS, branch_input, channel_axis
from netweave.graph.passes.pieces import Piece, axis_of
from netweave.graph.passes.rewrite import Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph

Branchings = dict[int, set[str]]
"""The operators in branches, by how many branches there are."""


def find_branchings(graph: Graph) -> Branchings:
    """Return what branches a net has that might be a grouped convolution, whether they are alike or not."""
    found: Branchings = defaultdict(set)
    for node in graph.nodes:
        if (node.domain, node.op_type) == ("", "Concat") and axis_of(node) == 1:
            branches = [_branch(value) for value in node.inputs]
            pieces = [
                Piece.of(branch[0].inputs[0], 1) for branch in branches if branch and branch[0].inputs[0]
            ]
            spans = {(piece.begin, piece.end) for piece in pieces}
            one_source = len({id(piece.source) for piece in pieces}) == 1 and pieces[0].source is not None
            if one_source and len(spans) == len(branches) > 1:
                found[len(branches)].update(node.op_type for branch in branches for node in branch)
    return dict(found)


def spread_groups(graph: Graph, branchings: Mapping[int, set[str]]) -> Graph:
    """Return a copy of a graph with a branch for each group of its grouped convolutions.

    Args:
        graph: The graph.
        branchings: How many groups are to be branches, and which operators behind them are to be in these.
    """
    found = graph.clone()
    rewriter = Rewriter(found)
    for node in list(found.nodes):
        groups = node.attributes.get_int("group", 1) if node.op_type in FILTERS and not node.domain else 1
        if groups > 1 and groups in branchings:
            _spread(rewriter, _chain(node, branchings[groups]), groups)
    return found


def _branch(value: ir.Value | None) -> list[ir.Node]:
    """Return the nodes from a filter to a value, over nodes that do the same to each channel; or none."""
    nodes: list[ir.Node] = []
    while value is not None and has_one_reader(value):
        node = value.producer()
        place = branch_input(node) if node is not None and not node.domain else None
        if node is None or place is None:
            return []
        nodes.insert(0, node)
        if node.op_type in FILTERS:
            return nodes
        value = node.inputs[place]
    return []


def _chain(node: ir.Node, op_types: set[str]) -> list[ir.Node]:
    """Return a filter and the nodes that alone read it, as far as branches have such operators."""
    chain = [node]
    while has_one_reader(chain[-1].outputs[0]):
        ((reader, place),) = chain[-1].outputs[0].uses()
        if reader.domain or reader.op_type not in op_types or branch_input(reader) != place:
            break
        chain.append(reader)
    return chain


def _spread(rewriter: Rewriter, chain: Sequence[ir.Node], groups: int) -> None:
    """Put branches in the place of a chain that begins with a grouped filter."""
    first, last = chain[0], chain[-1]
    pieces = _cut(rewriter, first, first.inputs[0], 1, groups)
    for node in chain:
        place = branch_input(node) or 0
        operands = {
            index: _cut(rewriter, node, value, channel_axis(node, index, place), groups)
            for index, value in enumerate(node.inputs)
            if index != place
        }
        attributes = attributes_of(node) | ({"group": 1} if node is first else {})
        made = []
        for number, piece in enumerate(pieces):
            inputs = [
                piece if index == place else operands[index][number] for index in range(len(node.inputs))
            ]
            copy = rewriter.insert(node, node.op_type, inputs, attributes)
            _narrow(copy.outputs[0], node.outputs[0], 1, groups)
            made.append(copy.outputs[0])
        pieces = list(made)
    joined = rewriter.insert(last, "Concat", pieces, {"axis": 1})
    rewriter.take_over(last.outputs[0], joined.outputs[0])
    for node in reversed(chain):
        rewriter.graph.model.graph.remove(node, safe=True)


def _cut(
    rewriter: Rewriter, before: ir.Node, value: ir.Value | None, axis: int | None, count: int
) -> list[ir.Value | None]:
    """Return a piece of a value for each branch; the value itself where it has nothing for each channel."""
    shape = known_shape(value) if value is not None else None
    if value is None or axis is None or shape is None or (shape[axis] or 0) % count or shape[axis] == 1:
        return [value] * count
    sizes = {"axis": axis, "num_outputs": count}
    node = rewriter.insert(before, "Split", [value], sizes, output=value.name, num_outputs=count)
    for piece in node.outputs:
        _narrow(piece, value, axis, count)
    return list(node.outputs)


def _narrow(value: ir.Value, like: ir.Value, axis: int, count: int) -> None:
    """Give a value the type and the shape of another, but for an axis that is so many times shorter."""
    value.type = like.type
    if like.shape is not None:
        sizes = [x // count if i == axis and isinstance(x, int) else x for i, x in enumerate(like.shape)]
        value.shape = ir.Shape(sizes)
