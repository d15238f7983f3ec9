"""Functions for the nodes of a net: one for each operator, and more where settings differ."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.node_writer import NotWritable
from netweave.formats.onnx.functions.table import REASONS, TABLE, FunctionNode
from netweave.formats.onnx.functions.tape import Tensor, recording
from netweave.graph import DOMAIN, OPSET

if TYPE_CHECKING:
    from netweave.graph import Graph


def with_functions(graph: Graph) -> Graph:
    """Return the net with a function for each of Netweave's operators that standard ONNX can express.

    Nodes that call functions of different bodies name theirs as ``overload``. What has no form stays without.
    """
    own = [node for node in graph.nodes if node.domain == DOMAIN]
    if not own:
        return graph
    bodies: dict[str, dict[bytes, str]] = {}
    copy = replace(graph, model=graph.model.clone())
    for node in copy.nodes:
        if node.domain != DOMAIN:
            continue
        function = _function(node, copy)
        if function is None:
            continue
        known = bodies.setdefault(node.op_type, {})
        content = ir.to_proto(function).SerializeToString(deterministic=True)
        if content not in known:
            known[content] = str(len(known)) if known else ""
            function.overload = known[content]
            copy.model.functions[function.identifier()] = function
        node.overload = known[content]
    return copy


def why_without(op_type: str) -> str | None:
    """Return why an operator of the domain ``netweave`` has no function, None if it has."""
    return None if TABLE.has(op_type, DOMAIN) else REASONS.get(op_type, "no body is written for it")


def _function(node: ir.Node, graph: Graph) -> ir.Function | None:
    """Return the function of a node, None if it has no form in standard ONNX."""
    given = [value for value in node.inputs if value is not None]
    inputs = [ir.Value(name=f"input_{number}") for number in range(len(given))]
    with recording() as nodes:
        try:
            found = TABLE.find(node)(FunctionNode(node, graph, [Tensor(value) for value in inputs]))
        except NotWritable:
            return None
    body = ir.Graph(
        inputs, [t.value for t in found], nodes=nodes, opset_imports={"": OPSET}, name=node.op_type
    )
    attributes = [ir.Attr(name, attr.type, None) for name, attr in node.attributes.items()]
    return ir.Function(DOMAIN, node.op_type, graph=body, attributes=attributes)
