"""Findings on layers that no change of values makes agree: other filters, other operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.weights import as_dense, filter_shape
from netweave.comparison.explain.wording import count_of_filters, in_groups, setting
from netweave.comparison.signals import family_of
from netweave.graph import attributes_of
from netweave.graph.wording import joined_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

MAX_OPERATORS = 6
"""More operators than this are not listed."""


def other_filters(
    nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], *, format_b: str
) -> tuple[str, str, ir.Node, ir.Node] | None:
    """Return how the filters of two groups differ: the cause, the fix, and the two nodes.

    The number of channels that a filter reads is named only if nothing else differs: it follows from the
    layers before, and has no fix of its own, which is an empty text then.

    Args:
        nodes_a: A's nodes.
        nodes_b: B's nodes.
        format_b: B's format, in whose words the fix is.
    """
    filtered = [[n for n in nodes if filter_shape(n) is not None] for nodes in (nodes_a, nodes_b)]
    if len(filtered[0]) != 1 or len(filtered[1]) != 1:
        return None
    node_a, node_b = filtered[0][0], filtered[1][0]
    shape_a, shape_b = filter_shape(node_a) or (), filter_shape(node_b) or ()
    if as_dense(shape_a) == as_dense(shape_b):
        return None
    if family_of(node_a) != family_of(node_b) or len(shape_a) != len(shape_b):
        return f"A has filters of {_times(shape_a)}, B of {_times(shape_b)}", "", node_a, node_b
    causes, fixes = [], []
    if shape_a[0] != shape_b[0]:
        causes.append(f"A has {shape_a[0]:,} filters, B has {shape_b[0]:,}")
        fixes.append(count_of_filters(format_b, node_b, shape_a[0]))
    if shape_a[2:] != shape_b[2:]:
        windows = _times(shape_a[2:]), _times(shape_b[2:])
        causes.append(f"the window of the filters is {windows[0]} in A and {windows[1]} in B")
        fixes.append(setting(format_b, node_b, "kernel_shape", shape_a[2:]))
    groups = [attributes_of(node).get("group", 1) for node in (node_a, node_b)]
    if groups[0] != groups[1]:
        causes.append(in_groups(*groups))
        fixes.append(setting(format_b, node_b, "group", groups[0]))
    if not causes:
        causes.append(f"each filter reads {shape_a[1]:,} channels in A and {shape_b[1]:,} in B")
    return "; ".join(causes), joined_text(fixes), node_a, node_b


def shape_mismatch(a: ir.Node, b: ir.Node) -> str:
    """Return the key of the mismatch for filters of other shapes: only of other groups, or of other sizes."""
    shapes = [filter_shape(node) or () for node in (a, b)]
    groups = [attributes_of(node).get("group", 1) for node in (a, b)]
    same = [(shape[:1], shape[2:]) for shape in shapes]
    return "group" if same[0] == same[1] and groups[0] != groups[1] else "filter-shape"


def other_operators(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> str:
    """Say which operators two groups are made of; empty if they are alike, or too many."""
    if max(len(nodes_a), len(nodes_b)) > MAX_OPERATORS:
        return ""
    if sorted(map(family_of, nodes_a)) == sorted(map(family_of, nodes_b)):
        return ""
    listed = [", ".join(node.op_type for node in nodes) for nodes in (nodes_a, nodes_b)]
    return f"A computes {listed[0]} here, B {listed[1]}"


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))
