"""Operators that came after opset ``OPSET`` and that ONNX itself defines by a function of older ones."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from netweave.files.onnx.editing import all_nodes
from netweave.graph import OPSET


def add_functions_of_later_operators(model: ir.Model) -> None:
    """Add a function for each node of an operator that came later: Attention-23, Swish-24.

    A node stays as it is where its function depends on types or ranks that the file does not say.
    """
    version = model.opset_imports.get("", OPSET)
    if version <= OPSET:
        return
    for number, node in enumerate(list(all_nodes(model.graph))):
        if node.domain or onnx.defs.has(node.op_type, OPSET) or not onnx.defs.has(node.op_type, version):
            continue
        schema = onnx.defs.get_schema(node.op_type, version)
        function = _function_of(node, schema)
        if function is None:
            continue
        function.overload = node.overload = f"later-{number}"
        function.opset_import[0].version = version
        del function.output[len(node.outputs) :]  # a body leaves out what nobody asks for
        for name, row in schema.attributes.items():
            if name not in node.attributes and row.default_value.name:
                node.attributes[name] = ir.from_proto(row.default_value)
        body = ir.from_proto(function)
        model.functions[body.identifier()] = body


def _function_of(node: ir.Node, schema: onnx.defs.OpSchema) -> onnx.FunctionProto | None:
    """Return the function that ONNX defines a node by; None without one."""
    if schema.has_function:  # type: ignore[attr-defined]  # not in onnx's stubs
        return schema.function_body
    types = [_type_of(value) for value in node.inputs]
    if not schema.has_context_dependent_function or None in types:  # type: ignore[attr-defined]  # likewise
        return None
    node_bytes = ir.to_proto(node).SerializeToString()
    written = schema.get_context_dependent_function(node_bytes, types)  # type: ignore[attr-defined]  # likewise
    return onnx.FunctionProto.FromString(written) if written else None


def _type_of(value: ir.Value | None) -> bytes | None:
    """Return the type of an input as ONNX's message, empty for an input left out; None if it is not known."""
    if value is None:
        return b""
    if value.type is None or value.shape is None:
        return None
    return ir.to_proto(value).type.SerializeToString()
