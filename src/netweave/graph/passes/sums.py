"""Sums of several terms: in one order, and with stored terms as one; factors of products in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import infer_shapes, layer_keys, set_layer_keys
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader, prune

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.graph import Graph


def sum_orders(graph: Graph) -> list[tuple[int, ...]]:
    """Return of each sum of three or more terms where each term stands in the order of the net."""
    depths = _depths(graph)
    orders = []
    for _, terms in _sums(graph):
        ranked = sorted(depths.get(term, 0) for term in terms)
        orders.append(tuple(ranked.index(depths.get(term, 0)) for term in terms))
    return orders


@Pass
def order_sums(graph: Graph) -> None:
    """Add the terms of each sum of three or more in the order of the net, the nearest to the inputs first."""
    rewriter, depths = Rewriter(graph), _depths(graph)
    is_changed = False
    for root in [node for node, _ in _sums(graph)]:
        terms = list(_terms(root))  # after those before it have changed
        ranked = sorted(terms, key=lambda term: depths.get(term, 0))
        if len({depths.get(term, 0) for term in terms}) < len(terms) or ranked == terms:
            continue
        old = root.outputs[0]
        total = ranked[0]
        for term in ranked[1:]:
            total = rewriter.insert(root, "Add", [total, term]).outputs[0]
            total.type, total.shape = old.type, old.shape
        rewriter.take_over(old, total)
        is_changed = True
    if is_changed:
        prune.edit(graph)


_VIEWS = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def num_scaled_operands(graph: Graph) -> int:
    """Return how often an operand of a product of two computed matrices is scaled by a number."""
    return sum(len(_scalings(node)) for node in graph.nodes)


@Pass
def scale_products(graph: Graph) -> None:
    """Scale products of two computed matrices behind them: scores, where code scales queries or keys."""
    rewriter = Rewriter(graph)
    for product in list(graph.nodes):
        for scaling in _scalings(product):
            made, source = product.outputs[0], scaling.inputs[0]
            assert source is not None  # as ``_scalings`` has it
            behind = rewriter.append(product, scaling.op_type, [made, scaling.inputs[1]])
            behind.outputs[0].shape, behind.outputs[0].type = made.shape, made.type
            set_layer_keys(behind, layer_keys(scaling))
            for use in list(made.uses()):
                if use.node is not behind:
                    use.node.replace_input_with(use.idx, behind.outputs[0])
            rewriter.bypass(scaling, source)


def _scalings(product: ir.Node) -> list[ir.Node]:
    """Return what scales the operands of a product by a number, behind which there are only views."""
    if product.op_type != "MatMul" or product.domain or product.outputs[0].is_graph_output():
        return []
    if any(value is None or value.const_value is not None for value in product.inputs):
        return []
    scalings = []
    for value in product.inputs:
        node = value.producer() if value is not None else None
        while node is not None and node.op_type in _VIEWS and has_one_reader(node.outputs[0]):
            node = node.inputs[0].producer() if node.inputs[0] is not None else None
        if node is None or node.op_type not in {"Div", "Mul"} or not has_one_reader(node.outputs[0]):
            continue
        factor = node.inputs[1].const_value if node.inputs[1] is not None else None
        if factor is not None and factor.size == 1 and len(factor.shape) == 0:
            scalings.append(node)
    return scalings


@Pass
def join_stored_terms(graph: Graph) -> None:
    """Add as one array what is stored and added to rows of a table: positions, and the type of a token."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        parts = _stored_term(node)
        inner = _stored_term(parts[0].producer()) if parts is not None else None
        if parts is None or inner is None or not has_one_reader(parts[0]) or not _is_row(inner[0]):
            continue
        arrays = [term.const_value.numpy() for term in (inner[1], parts[1]) if term.const_value is not None]
        term = rewriter.initializer(ir.Tensor(arrays[0] + arrays[1]), f"{node.name}/stored")
        tag_sources(term, list(dict.fromkeys([*source_keys(inner[1]), *source_keys(parts[1])])))
        maker = parts[0].producer()
        assert maker is not None
        rewriter.replace([maker, node], "Add", [inner[0], term], {})


def _stored_term(node: ir.Node | None) -> tuple[ir.Value, ir.Value] | None:
    """Return what an Add adds: something that is computed, and something stored."""
    if node is None or (node.domain, node.op_type) != ("", "Add"):
        return None
    first, second = node.inputs
    if first is None or second is None or (first.const_value is None) == (second.const_value is None):
        return None
    return (first, second) if second.const_value is not None else (second, first)


def _is_row(value: ir.Value) -> bool:
    """Return whether a value is looked up in a stored table."""
    maker = value.producer()
    table = maker.inputs[0] if maker is not None and maker.op_type == "Gather" and not maker.domain else None
    return table is not None and table.const_value is not None


# Scores of the W windows of N images, (N * W, H, L, L), are given what is stored for each window: code adds
# it to (N, W, H, L, L) and joins the axes again, or repeats it N times. A bias for all is added as well.


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A term that repeats stored numbers (1, W, ...) for each of N examples, and joins the first two axes.

    Attributes:
        stored: The numbers.
        sizes: What they are expanded to.
    """

    stored: ir.Value
    sizes: ir.Value


@Pass
def join_window_terms(graph: Graph) -> None:
    """Add what is stored for each window of an image as one term that repeats it for each image."""
    rewriter = Rewriter(graph)
    joining = [(node, *joined) for node in graph.nodes if (joined := _joins_windows(node)) is not None]
    for node, x, parted, stored in joining:
        term = _repeated_once_more(rewriter, node, parted, stored)
        rewriter.take_over(node.outputs[0], rewriter.insert(node, "Add", [x, term]).outputs[0])
    if joining:
        prune.edit(graph)
    is_changed = [_take_stored(rewriter, node) for node in list(graph.nodes)]
    if joining or any(is_changed):
        prune.edit(graph)
        infer_shapes(graph)


def _joins_windows(node: ir.Node) -> tuple[ir.Value, ir.Value, ir.Value] | None:
    """Return scores (N * W, ...), (N, W, ...) and what is stored for each window, if a node joins the sum."""
    total = node.inputs[0] if node.op_type == "Reshape" and not node.domain else None
    term = _stored_term(total.producer()) if total is not None and has_one_reader(total) else None
    parted = term[0].producer() if term is not None else None
    if term is None or parted is None or parted.op_type != "Reshape":
        return None
    x, stored, out = parted.inputs[0], term[1], node.outputs[0]
    shapes = [list(value.shape or ()) for value in (term[0], stored)]
    if x is None or x.shape is None or x.shape != out.shape or len(shapes[0]) != len(x.shape) + 1:
        return None
    is_parted = shapes[0][2:] == list(x.shape)[1:] and len(shapes[1]) == len(shapes[0])
    return (x, term[0], stored) if is_parted and shapes[1][:2] == [1, shapes[0][1]] else None


def _repeated_once_more(rewriter: Rewriter, before: ir.Node, parted: ir.Value, stored: ir.Value) -> ir.Value:
    """Return what is stored for each window, repeated for each example of scores (N, W, ...)."""
    shape = list(parted.shape or ())
    ones = [1] * (len(shape) - 1)
    if isinstance(shape[0], int):
        sizes = rewriter.initializer(ir.Tensor(np.array([shape[0], *ones])), f"{before.name}/sizes")
    else:
        value, axis = _sized(rewriter.graph, shape[0]) or (parted, 0)
        first = rewriter.insert(before, "Shape", [value], {"start": axis, "end": axis + 1}).outputs[0]
        rest = rewriter.initializer(ir.Tensor(np.array(ones)), f"{before.name}/ones")
        sizes = rewriter.insert(before, "Concat", [first, rest], {"axis": 0}).outputs[0]
    return _repeat(rewriter, before, stored, sizes)


def _sized(graph: Graph, size: ir.SymbolicDim) -> tuple[ir.Value, int] | None:
    """Return the input that has an open size along an axis, and the axis."""
    places = ((value, axis) for value in graph.inputs for axis in range(len(value.shape or ())))
    return next((place for place in places if place[0].shape and place[0].shape[place[1]] == size), None)


def _repeat(rewriter: Rewriter, before: ir.Node, stored: ir.Value, sizes: ir.Value) -> ir.Value:
    every = rewriter.insert(before, "Expand", [stored, sizes]).outputs[0]
    own = [*stored.shape.numpy()[2:]] if stored.shape is not None else []
    joined = rewriter.initializer(ir.Tensor(np.array([-1, *own])), f"{before.name}/joined")
    term = rewriter.insert(before, "Reshape", [every, joined]).outputs[0]
    term.type, every.type, term.shape = stored.type, stored.type, ir.Shape([None, *own])
    return term


def _take_stored(rewriter: Rewriter, node: ir.Node) -> bool:
    """Let a term that is repeated hold what is stored and added to it, or to what it is added to."""
    if (node.domain, node.op_type) != ("", "Add"):
        return False
    for term, other in (tuple(node.inputs), tuple(reversed(node.inputs))):
        repeated = _repeated(term)
        inner = _stored_term(other.producer()) if other is not None and has_one_reader(other) else None
        bias = other if other is not None and other.const_value is not None else inner[1] if inner else None
        if (
            repeated is None
            or bias is None
            or repeated.stored.const_value is None
            or bias.const_value is None
        ):
            continue
        numbers, own = repeated.stored.const_value.numpy(), bias.const_value.numpy()
        if own.ndim >= numbers.ndim or (own.ndim == numbers.ndim - 1 and own.shape[0] != 1):
            continue  # for each window another one
        total = rewriter.initializer(ir.Tensor(numbers + own), f"{node.name}/stored")
        tag_sources(total, list(dict.fromkeys([*source_keys(repeated.stored), *source_keys(bias)])))
        made = _repeat(rewriter, node, total, repeated.sizes)
        if inner is not None:
            made = rewriter.insert(node, "Add", [inner[0], made]).outputs[0]
        rewriter.take_over(node.outputs[0], made)
        return True
    return False


def _repeated(value: ir.Value | None) -> _Repeated | None:
    joined = value.producer() if value is not None else None
    every = joined.inputs[0].producer() if joined is not None and joined.inputs and joined.inputs[0] else None
    if joined is None or every is None or (joined.op_type, every.op_type) != ("Reshape", "Expand"):
        return None
    stored, sizes = every.inputs
    if stored is None or sizes is None or stored.const_value is None or value is None or value.shape is None:
        return None
    shape = [*stored.const_value.shape.numpy()]
    is_joined = len(shape) > 2 and shape[0] == 1 and shape[2:] == list(value.shape)[1:]
    return _Repeated(stored, sizes) if is_joined else None


def _sums(graph: Graph) -> Iterator[tuple[ir.Node, list[ir.Value]]]:
    """Yield the last Add of each sum of three or more terms of one shape, and the terms as they are added."""
    for node in graph.nodes:
        if not _is_sum(node) or any(
            _is_part(value, use.node) for value in node.outputs for use in value.uses()
        ):
            continue
        terms = list(_terms(node))
        if len(terms) > 2:
            yield node, terms


def _terms(node: ir.Node) -> Iterator[ir.Value]:
    """Yield the terms of a sum as they are added, of which there may be thousands."""
    left = [(value, node) for value in reversed(node.inputs) if value is not None]
    while left:
        value, reader = left.pop()
        maker = value.producer()
        if maker is not None and _is_part(value, reader):
            left += [(term, maker) for term in reversed(maker.inputs) if term is not None]
        else:
            yield value


def _is_part(value: ir.Value, reader: ir.Node) -> bool:
    """Return whether a value is a sum that alone another one reads."""
    maker = value.producer()
    return maker is not None and _is_sum(maker) and _is_sum(reader) and has_one_reader(value)


def _is_sum(node: ir.Node) -> bool:
    """Return whether a node adds two computed values of one shape."""
    if (node.domain, node.op_type) != ("", "Add"):
        return False
    first, second = node.inputs
    if first is None or second is None or first.const_value is not None or second.const_value is not None:
        return False
    return first.shape is not None and first.shape == second.shape


def _depths(graph: Graph) -> dict[ir.Value, int]:
    """Return how many nodes lie on the longest way from an input to each value."""
    depths: dict[ir.Value, int] = {}
    for node in graph.nodes:
        depth = 1 + max((depths.get(value, 0) for value in node.inputs if value is not None), default=0)
        depths.update(dict.fromkeys(node.outputs, depth))
    return depths
