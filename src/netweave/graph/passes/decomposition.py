"""Operators spread into simpler ones."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, known_shape, layer_keys, set_layer_keys
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.branches import FILTERS, branch_input, channel_axis
from netweave.graph.passes.extraction import Piece, axis_of
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph


Branchings = dict[int, set[str]]
"""The operators in branches, by how many branches there are."""


def find_branchings(graph: Graph) -> Branchings:
    """Return what branches a net has that might be a grouped convolution, whether they are alike or not."""
    branchings: Branchings = defaultdict(set)
    for node in graph.nodes:
        if (node.domain, node.op_type) == ("", "Concat") and axis_of(node) == 1:
            branches = [_branch(value) for value in node.inputs]
            pieces = [
                Piece.of(branch[0].inputs[0], 1) for branch in branches if branch and branch[0].inputs[0]
            ]
            spans = {(piece.begin, piece.end) for piece in pieces}
            one_source = len({id(piece.source) for piece in pieces}) == 1 and pieces[0].source is not None
            if one_source and len(spans) == len(branches) > 1:
                branchings[len(branches)].update(node.op_type for branch in branches for node in branch)
    return dict(branchings)


def spread_groups(graph: Graph, branchings: Mapping[int, set[str]]) -> Graph:
    """Return a copy of a graph with a branch for each group of its grouped convolutions.

    Args:
        graph: The graph.
        branchings: How many groups are to be branches, and which operators behind them are to be in these.
    """
    result = graph.clone()
    rewriter = Rewriter(result)
    for node in list(result.nodes):
        groups = node.attributes.get_int("group", 1) if node.op_type in FILTERS and not node.domain else 1
        if groups > 1 and groups in branchings:
            _spread_spread(rewriter, _chain(node, branchings[groups]), groups)
    return result


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


def _spread_spread(rewriter: Rewriter, chain: Sequence[ir.Node], groups: int) -> None:
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
            _spread_spread_activations(rewriter, node, concat)


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


def _spread_spread_activations(rewriter: Rewriter, activation: ir.Node, concat: ir.Node) -> None:
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


@Pass
def spread_group_norm(graph: Graph) -> None:
    """Write each GroupNormalization of float32 as the instance normalisation of its groups.

    ONNX's own function takes the variance as ``E[x^2] - E[x]^2``, which cancels far from zero.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        x = node.inputs[0] if (node.domain, node.op_type) == ("", "GroupNormalization") else None
        if x is not None and x.shape is not None and x.dtype == ir.DataType.FLOAT:
            _spread_group_norm(rewriter, node, x, len(x.shape))


def _spread_group_norm(rewriter: Rewriter, node: ir.Node, x: ir.Value, rank: int) -> None:
    def add(op_type: str, *inputs: ir.Value | None, **settings: float) -> ir.Value:
        made = rewriter.insert(node, op_type, inputs, settings).outputs[0]
        made.type = ir.TensorType(ir.DataType.INT64) if op_type == "Shape" else x.type
        return made

    def stored(values: np.ndarray) -> ir.Value:
        return rewriter.initializer(ir.Tensor(values), f"{node.name}/groups")

    attributes = attributes_of(node)
    num_groups = attributes["num_groups"]
    groups = add("Reshape", x, stored(np.array([0, num_groups, -1])))
    ones, zeros = (stored(np.full(num_groups, value, np.float32)) for value in (1, 0))
    normalised = add("InstanceNormalization", groups, ones, zeros, epsilon=attributes.get("epsilon", 1e-5))
    y = add("Reshape", normalised, add("Shape", x))
    axes = stored(np.arange(1, rank - 1))
    scale, bias = (add("Unsqueeze", value, axes) for value in node.inputs[1:])
    y = add("Add", add("Mul", y, scale), bias)
    rewriter.take_over(node.outputs[0], y)
    rewriter.graph.model.graph.remove(node, safe=True)


def join_slopes(rewriter: Rewriter, add: ir.Node) -> bool:
    """Make one PRelu of ``relu(x) + c * relu(-x)`` with stored ``c``, whose slopes are ``-c``.

    Returns:
        Whether the sum was one; it is gone then.
    """
    for right, left in (add.inputs, reversed(add.inputs)):
        positive, product = _maker(right, "Relu"), _maker(left, "Mul")
        factor, negative = _factor(product)
        turned = _maker(negative.inputs[0], "Neg") if negative is not None else None
        if positive is None or product is None or factor is None or negative is None or turned is None:
            continue
        if turned.inputs[0] is positive.inputs[0] and factor.const_value is not None:
            values = np.negative(factor.const_value.numpy())
            slopes = rewriter.initializer(ir.Tensor(values), f"{add.name}/slopes")
            tag_sources(slopes, source_keys(factor))
            nodes = [positive, turned, negative, product, add]
            rewriter.replace(nodes, "PRelu", [positive.inputs[0], slopes], {})
            return True
    return False


def _maker(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Return the node that makes a value, if it is of this type and nothing else reads it."""
    node = value.producer() if value is not None else None
    if value is None or node is None or node.domain or node.op_type != op_type or not has_one_reader(value):
        return None
    return node


def _factor(product: ir.Node | None) -> tuple[ir.Value | None, ir.Node | None]:
    """Return the stored factor of a product and the rectifier that makes the other one."""
    if product is None:
        return None, None
    first, second = product.inputs
    stored, other = (
        (first, second) if first is not None and first.const_value is not None else (second, first)
    )
    is_stored = stored is not None and stored.const_value is not None
    return (stored, _maker(other, "Relu")) if is_stored else (None, None)
