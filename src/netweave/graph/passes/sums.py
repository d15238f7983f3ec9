"""Sums of several terms in one order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

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
