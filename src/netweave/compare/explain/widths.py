"""Filters of other shapes: widths and windows in which two layers differ, which no change of values mends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.compare.align.weights import filter_shape
from netweave.compare.explain.wording import count_of_filters, setting
from netweave.compare.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


def other_filters(
    nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], *, format_b: str
) -> tuple[str, str, ir.Node, ir.Node] | None:
    """Return how the filters of two groups differ in number and window: cause, fix, and the two nodes.

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
    if family_of(node_a) != family_of(node_b) or len(shape_a) != len(shape_b) or shape_a == shape_b:
        return None
    causes, fixes = [], []
    if shape_a[0] != shape_b[0]:
        causes.append(f"A has {shape_a[0]:,} filters, B has {shape_b[0]:,}")
        fixes.append(count_of_filters(format_b, node_b, shape_a[0]))
    if shape_a[2:] != shape_b[2:]:
        windows = ["x".join(map(str, shape[2:])) for shape in (shape_a, shape_b)]
        causes.append(f"the window of the filters is {windows[0]} in A and {windows[1]} in B")
        fixes.append(setting(format_b, node_b, "kernel_shape", shape_a[2:]))
    if not causes:
        causes.append(f"each filter reads {shape_a[1]:,} channels in A and {shape_b[1]:,} in B")
    return "; ".join(causes), "; ".join(fixes), node_a, node_b
