"""Comparing a part of two nets: from one layer of A to another, against what stands for them in B."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from netweave.comparison.signals import Signals, is_constant
from netweave.errors import UsageError
from netweave.graph import layer_keys
from netweave.graph.passes.extract import extract

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnx_ir as ir

    from netweave.comparison.result.comparison import Comparison
    from netweave.graph import Graph


def cut_layer_range(
    a: Graph, b: Graph, whole: Comparison, *, first: str | None, last: str | None
) -> tuple[Graph, Graph]:
    """Cut the same part out of both nets.

    Args:
        a: The first net in inference form.
        b: The second net in inference form.
        whole: The comparison of the whole nets, which says what in B stands for a layer of A.
        first: Layer, node or value of A that the part begins with; None for the net's inputs.
        last: Layer, node or value of A that the part ends with; None for the net's outputs.

    Raises:
        UsageError: A has nothing of that name, B has nothing in its place, or nothing lies between.
    """
    begin = _counterparts(a, b, whole, first) if first else None
    end = _counterparts(a, b, whole, last) if last else None
    if begin and end and a.nodes.index(end[0][-1]) < a.nodes.index(begin[0][0]):
        raise UsageError(f"{first!r} comes after {last!r} in A; name the earlier layer first")
    begins, ends = begin or (None, None), end or (None, None)
    return _cut(a, begins[0], ends[0]), _cut(b, begins[1], ends[1])


def _cut(graph: Graph, begin: Sequence[ir.Node] | None, end: Sequence[ir.Node] | None) -> Graph:
    """Return what lies between some nodes and others; None for the net's own inputs or outputs."""
    inputs = _reads(graph, begin) if begin else [str(value.name) for value in graph.inputs]
    outputs = _leaves(graph, end) if end else [str(value.name) for value in graph.outputs]
    return extract(graph, inputs=inputs, outputs=outputs)


def _counterparts(a: Graph, b: Graph, whole: Comparison, name: str) -> tuple[list[ir.Node], list[ir.Node]]:
    """Return the nodes of A that a name means, and those of B in the same groups."""
    nodes_a = _named(a, name)
    wanted = {str(node.name) for node in nodes_a}
    groups = [group for group in whole.groups if wanted & set(group.nodes_a)]
    names_a = {node for group in groups for node in group.nodes_a}
    names_b = {node for group in groups for node in group.nodes_b}
    found_b = [node for node in b.nodes if node.name in names_b]
    if not found_b:
        raise UsageError(f"no layer of B corresponds to {name!r} of A; choose a layer that both nets have")
    return [node for node in a.nodes if node.name in names_a], found_b


def _named(graph: Graph, name: str) -> list[ir.Node]:
    """Return the nodes of a layer; where no layer has the name, a node, or what makes a value."""
    readings: tuple[Callable[[ir.Node], bool], ...] = (
        lambda node: name in layer_keys(node),
        lambda node: any(layer.name == name for layer in graph.layers_of(node)),
        lambda node: node.name == name,
        lambda node: any(value.name == name for value in node.outputs),
    )
    for reading in readings:
        nodes = [node for node in graph.nodes if reading(node)]
        if nodes:
            return nodes
    if name in graph.layers:
        raise UsageError(
            f"layer {name!r} of net {graph.name!r} has no effect at inference; choose the layer before or "
            "after"
        )
    near = difflib.get_close_matches(name, graph.layers, 3) or list(graph.layers)[:6]
    raise UsageError(
        f"net {graph.name!r} has no layer, node or value {name!r}; it has {', '.join(near)}, ..."
    )


def _reads(graph: Graph, nodes: Sequence[ir.Node]) -> list[str]:
    """Return the signals that nodes read and do not make."""
    signals = Signals.of(graph)
    outputs = {str(value.name) for node in nodes for value in node.outputs}
    read = (
        signals.root.get(str(value.name), str(value.name))
        for node in nodes
        for value in node.inputs
        if value is not None and not is_constant(value)
    )
    return [name for name in dict.fromkeys(read) if name not in outputs]


def _leaves(graph: Graph, nodes: Sequence[ir.Node]) -> list[str]:
    """Return the values that leave nodes, or end in them."""
    inside = {id(node) for node in nodes}
    ends = {str(value.name) for value in graph.outputs}
    return [
        str(value.name)
        for node in nodes
        for value in node.outputs
        if value.name in ends or any(id(reader) not in inside for reader in value.consumers())
    ]
