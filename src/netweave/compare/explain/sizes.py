"""What is said of groups that no setting makes agree: filters of other sizes, other operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.compare.align.weights import as_dense, filter_shape
from netweave.compare.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

MAX_OPERATORS = 6
"""More operators than this are not listed."""


def unlike(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> str:
    """Say how two groups of nodes are unlike in sizes of filters or, if not in these, in their operators.

    Empty if they are alike in both.
    """
    return other_filters(nodes_a, nodes_b) or _other_operators(nodes_a, nodes_b)


def other_filters(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> str:
    """Say how the sizes of two groups' filters differ; empty if they do not, or have several filters."""
    shapes_a, shapes_b = (
        [shape for node in nodes if (shape := filter_shape(node))] for nodes in (nodes_a, nodes_b)
    )
    if len(shapes_a) != 1 or len(shapes_b) != 1 or as_dense(shapes_a[0]) == as_dense(shapes_b[0]):
        return ""
    (a, b) = shapes_a[0], shapes_b[0]
    if len(a) != len(b):
        return f"A has filters of {_times(a)}, B of {_times(b)}"
    parts = [f"A has {a[0]} filters, B has {b[0]}"] if a[0] != b[0] else []
    if a[2:] != b[2:]:
        parts.append(f"their windows are {_times(a[2:])} in A and {_times(b[2:])} in B")
    if a[1] != b[1]:
        parts.append(f"each reads {a[1]} channels in A and {b[1]} in B")
    return "; ".join(parts)


def _times(sizes: Sequence[int]) -> str:
    return "x".join(map(str, sizes))


def _other_operators(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> str:
    if max(len(nodes_a), len(nodes_b)) > MAX_OPERATORS:
        return ""
    if sorted(map(family_of, nodes_a)) == sorted(map(family_of, nodes_b)):
        return ""
    listed = [", ".join(node.op_type for node in nodes) for nodes in (nodes_a, nodes_b)]
    return f"A computes {listed[0]} here, B {listed[1]}"
