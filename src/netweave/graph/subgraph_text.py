"""Branches and loop bodies as text: what they compute, whatever their values are called."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from netweave.graph.graph import captured

SHOWN = 8
"""Elements of a constant that are written out; of a larger one, its sum and shape are."""


def subgraph_text(graph: ir.Graph) -> str:
    """Return what a branch or a body computes, as text that is equal for equal graphs.

    Values are numbered in the order in which the results need them, whatever order the nodes are stored in;
    those of the graph around are ``outer``.

    Args:
        graph: The branch or body.
    """
    names: dict[int, str] = {id(value): f"in{i}" for i, value in enumerate(graph.inputs)}
    own = {id(value) for node in graph for value in node.outputs}
    lines = [_node_text(node, names, own) for node in _in_order_of_need(graph)]
    results = ", ".join(_value_text(value, names, own) for value in graph.outputs)
    return f"{'; '.join(lines)} -> {results}"


def _in_order_of_need(graph: ir.Graph) -> Iterator[ir.Node]:
    """Yield the nodes of a graph that its results need, each behind what it reads, in the order they do."""
    left = {id(node) for node in graph}
    waiting = [value.producer() for value in reversed(graph.outputs)]
    while waiting:
        node = waiting[-1]
        if node is None or id(node) not in left:
            waiting.pop()
            continue
        read = [*filter(None, node.inputs), *captured(node)]
        before = [maker for value in read if (maker := value.producer()) is not None and id(maker) in left]
        if before:
            waiting += reversed(before)
            continue
        left.discard(id(node))
        waiting.pop()
        yield node


def _node_text(node: ir.Node, names: dict[int, str], own: set[int]) -> str:
    read = ", ".join(_value_text(value, names, own) for value in node.inputs)
    settings = "".join(f", {text}" for text in _settings(node))
    for value in node.outputs:
        names[id(value)] = f"v{len(names)}"
    return f"{node.op_type}({read}{settings})"


def _settings(node: ir.Node) -> Iterator[str]:
    for name, attribute in sorted(node.attributes.items()):
        value = attribute.value
        if isinstance(value, ir.TensorProtocol):
            yield f"{name}={_array_text(value)}"
        else:
            yield f"{name}={subgraph_text(value) if isinstance(value, ir.Graph) else value}"


def _value_text(value: ir.Value | None, names: dict[int, str], own: set[int]) -> str:
    if value is None:
        return "-"
    if value.const_value is not None and id(value) not in own:
        return _array_text(value.const_value)
    return names.setdefault(id(value), f"outer{len(names)}")


def _array_text(tensor: ir.TensorProtocol) -> str:
    x = tensor.numpy()
    return str(x.tolist()) if x.size <= SHOWN else f"array of {x.shape} with the sum {x.sum():.9g}"
