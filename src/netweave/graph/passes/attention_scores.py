"""The core of attention in a graph: two products around a softmax, however an exporter wrote them.

N examples, L queries, S keys, H heads, D features of each head.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.rewrite import has_one_reader
from netweave.graph.passes.views import OpenSizes, View, number_of, scalar_factor, views_of

if TYPE_CHECKING:
    import onnx_ir as ir

NEVER = -1e4
"""What is added to a score that must not count is this or less: e to its power is 0 in float32."""


@dataclass(frozen=True, slots=True)
class Scores:
    """The core of attention.

    Attributes:
        query: First factor of the scores.
        key: Second factor of the scores, its last two axes exchanged.
        value: What the softmax weights.
        factor: What the scores are multiplied by.
        mask: What is added to the scores: a value, or numbers.
        nodes: The nodes from the scores' product to the last one.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    factor: float
    mask: ir.Value | np.ndarray | None
    nodes: tuple[ir.Node, ...]


@dataclass(frozen=True, slots=True)
class Heads:
    """Queries, keys and values of all heads, (N, H, steps, D): views of earlier values, the nearest first."""

    query: list[View]
    key: list[View]
    value: list[View]

    @property
    def all(self) -> tuple[list[View], list[View], list[View]]:
        """The three."""
        return self.query, self.key, self.value

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the weighted values: (N, H, L, D)."""
        return (*self.query[0].elements.shape[:3], self.value[0].elements.shape[3])


def scores_around(softmax: ir.Node) -> Scores | None:
    """Return the core of attention that a softmax stands in."""
    weights = softmax.outputs[0]
    shape = known_shape(weights)
    if shape is None or attributes_of(softmax).get("axis", -1) not in {-1, len(shape) - 1}:
        return None
    guard = _guard(softmax)
    if guard:
        weights = guard[-1].outputs[0]
    last = next((use.node for use in weights.uses() if use.idx == 0), None)
    if last is None or last.op_type != "MatMul" or last.domain or not has_one_reader(weights):
        return None
    scores, mask, nodes = softmax.inputs[0], None, [softmax, *guard, last]
    masked = _masked(scores) if scores is not None else None
    if masked is not None:
        node, scores, mask = masked
        nodes.insert(0, node)
    product = _scaled_product(scores) if scores is not None else None
    value = last.inputs[1]
    if product is None or value is None or value.const_value is not None:
        return None
    factor, inner = product
    query, key = inner[0].inputs
    if query is None or key is None or query.const_value is not None or key.const_value is not None:
        return None
    return Scores(query, key, value, factor, mask, (*inner, *nodes))


def _guard(softmax: ir.Node) -> list[ir.Node]:
    """Return the nodes that put zeros where a softmax over no key at all gives no numbers."""
    weights = softmax.outputs[0]
    readers = {use.node.op_type: use.node for use in weights.uses()}
    test, choice = readers.get("IsNaN"), readers.get("Where")
    if readers.keys() != {"IsNaN", "Where"} or test is None or choice is None or weights.is_graph_output():
        return []
    is_guard = choice.inputs[0] is test.outputs[0] and choice.inputs[2] is weights
    return [test, choice] if is_guard and number_of(choice.inputs[1]) == 0 else []


def _scaled_product(value: ir.Value) -> tuple[float, list[ir.Node]] | None:
    """Return the factor and the nodes of a product of two matrices, its result multiplied by numbers."""
    factor = 1.0
    nodes: list[ir.Node] = []
    while (node := value.producer()) is not None and has_one_reader(value) and not node.domain:
        nodes.insert(0, node)
        if node.op_type == "MatMul":
            return factor, nodes
        scaled = scalar_factor(node)
        if scaled is None:
            return None
        value, factor = scaled[0], factor * scaled[1]
    return None


def _masked(scores: ir.Value) -> tuple[ir.Node, ir.Value, ir.Value | np.ndarray] | None:
    """Return the node that masks scores, the scores, and what is added to them."""
    node = scores.producer()
    if node is None or node.domain or not has_one_reader(scores):
        return None
    if node.op_type == "Add":
        for scored, mask in (tuple(node.inputs), tuple(reversed(node.inputs))):
            if scored is not None and mask is not None and _scaled_product(scored) is not None:
                return node, scored, mask
    if node.op_type == "Where" and node.inputs[0] is not None and node.inputs[0].const_value is not None:
        allowed = node.inputs[0].const_value.numpy()
        first, second = node.inputs[1:]
        for scored, fill, counts in ((first, second, allowed), (second, first, ~allowed)):
            never = fill.const_value if fill is not None else None
            if scored is not None and never is not None and never.size == 1 and never.numpy().max() <= NEVER:
                return node, scored, np.where(counts, np.float32(0), never.numpy().reshape(()))
    return None


def heads_of(scores: Scores, sizes: OpenSizes) -> Heads | None:
    """Return queries, keys and values as views with an axis for the heads; None where they have none."""
    query = views_of(scores.query, sizes, scales=True)
    turned = [
        replace(view, elements=view.elements.swapaxes(-1, -2))
        for view in views_of(scores.key, sizes, scales=True)
        if view.elements.ndim == 4
    ]
    value = views_of(scores.value, sizes)
    if not query or not turned or not value:
        return None
    shapes = [views[0].elements.shape for views in (query, turned, value)]
    if any(len(shape) != 4 for shape in shapes) or len({shape[:2] for shape in shapes}) > 1:
        return None
    return Heads(query, turned, value)
