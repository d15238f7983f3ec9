"""Values that a node reads, those captured by its subgraphs included; nodes that values need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def reads(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node reads, each once: its inputs and what its subgraphs capture."""
    found = dict.fromkeys(value for value in node.inputs if value is not None)
    if node.attributes and any(attribute.type in _GRAPHS for attribute in node.attributes.values()):
        for graph in subgraphs(node):
            found.update(dict.fromkeys(_captured(graph)))
    return list(found)


def captured(node: ir.Node) -> list[ir.Value]:
    """Return the values that a node's subgraphs read of the graph around it, but for its inputs."""
    found = dict.fromkeys(value for graph in subgraphs(node) for value in _captured(graph))
    return [value for value in found if value not in node.inputs] if found else []


def subgraphs(node: ir.Node) -> Iterator[ir.Graph]:
    """Yield the graphs that are attributes of a node (the branches of an If, the body of a Loop)."""
    if not node.attributes:
        return
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def needed_nodes(outputs: Iterable[ir.Value], *, given: Iterable[ir.Value] = ()) -> set[ir.Node]:
    """Return the nodes that must run for some values to be known.

    Args:
        outputs: The values.
        given: Values that are known already.
    """
    known = set(given)
    found: set[ir.Node] = set()
    todo = [value for value in outputs if value not in known]
    while todo:
        maker = todo.pop().producer()
        if maker is not None and maker not in found:
            found.add(maker)
            todo.extend(value for value in reads(maker) if value not in known)
    return found


_GRAPHS = {ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS}


def _captured(graph: ir.Graph) -> list[ir.Value]:
    own = {*graph.inputs, *graph.initializers.values()}
    found: dict[ir.Value, None] = {}
    for node in graph:
        found.update(dict.fromkeys(reads(node)))
        own.update(node.outputs)
    found.update(dict.fromkeys(graph.outputs))
    return [value for value in found if value not in own]
