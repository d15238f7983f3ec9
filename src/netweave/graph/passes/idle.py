"""Nodes that change nothing: casts, bounds that no value reaches, increasing functions before a choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader
from netweave.graph.passes.value_ranges import range_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

    from netweave.graph import Graph


@Pass
def drop_idle_nodes(graph: Graph) -> None:
    """Drop each Cast to the type that is there, and each Clip of whole numbers that none of them reaches.

    Readers put the latter before a lookup.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        source = node.inputs[0] if node.inputs else None
        if node.domain or source is None or source.dtype is None:
            continue
        is_same = node.op_type == "Cast" and node.attributes.get_int("to", 0) == int(source.dtype)
        if is_same or (node.op_type == "Clip" and source.dtype.is_integer() and _is_within(node, source)):
            rewriter.bypass(node, source)


def _is_within(clip: ir.Node, source: ir.Value) -> bool:
    low, high = range_of(source)
    least, largest = (_bound(clip, index) for index in (1, 2))
    return least is not None and largest is not None and least <= low and high <= largest


def _bound(node: ir.Node, index: int) -> float | None:
    """Return a bound of a Clip, infinite where it has none; None if it is computed."""
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return -np.inf if index == 1 else np.inf
    return float(value.const_value.numpy().reshape(-1)[0]) if value.const_value is not None else None


@Pass
def drop_before_choices(graph: Graph) -> None:
    """Drop each strictly increasing function before an ArgMax or ArgMin, whose choice it does not change.

    Log and Sqrt go where what they read is known to be positive (others become NaN), Softmax before an ArgMax
    over its axis. Sigmoid and Exp stay: they make large values equal.
    """
    rewriter = Rewriter(graph)
    for node in list(_before_choices(graph)):
        source = node.inputs[0]
        if source is not None:
            rewriter.bypass(node, source)


def functions_before_choices(graph: Graph) -> list[str]:
    """Return the operators that ``drop_before_choices`` would drop, in order."""
    return [node.op_type for node in _before_choices(graph)]


def _before_choices(graph: Graph) -> Iterator[ir.Node]:
    for choice in graph.nodes:
        value = choice.inputs[0] if choice.op_type in {"ArgMax", "ArgMin"} and not choice.domain else None
        node = value.producer() if value is not None and has_one_reader(value) else None
        if node is not None and not node.domain and _keeps_choice(node, choice):
            yield node


def _keeps_choice(node: ir.Node, choice: ir.Node) -> bool:
    source = node.inputs[0]
    if source is None:
        return False
    if node.op_type in {"Log", "Sqrt"}:
        low = range_of(source)[0]
        return low > 0 or (low == 0 and node.op_type == "Sqrt")
    if node.op_type == "Softmax" and choice.op_type == "ArgMin":
        return False  # the smallest of its values are all 0
    rank = len(source.shape or ())
    axes = node.attributes.get_int("axis", -1), choice.attributes.get_int("axis", 0)
    return node.op_type in {"LogSoftmax", "Softmax"} and rank > 0 and (axes[0] - axes[1]) % rank == 0
