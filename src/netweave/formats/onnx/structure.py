"""ONNX files with operators that Netweave does not read, to be looked at."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from netweave.files import Source
from netweave.files.onnx.editing import all_nodes
from netweave.files.onnx.layers import make_layers, make_parameters
from netweave.files.onnx.model import inline, parse, to_model
from netweave.files.onnx.upgrades import is_known_operator
from netweave.graph import Graph

MAX_INFERRED_BYTES = 2**30
"""Messages from this size on keep the sizes that the file says; ONNX's inference copies the message."""


def read_structure(source: Source) -> Graph:
    """Read an ONNX net as its file has it: in its own opset, with the operators that nobody knows.

    Sizes are those that the file says, and what ONNX infers from them as far as operators are known.
    Nothing can be computed with such a net.

    Raises:
        SourceError: The file is damaged.
    """
    place = str(source.net)
    proto = parse(source.net)
    if proto.ByteSize() < MAX_INFERRED_BYTES:
        proto = _with_sizes(proto)
    model = to_model(proto, source.net)
    inline(model, place=place)
    unknown = {
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in all_nodes(model.graph)
        if not is_known_operator(node, model)
    }
    layers = make_layers(model, file=place)
    declared = {str(value.name): _sizes(value) for value in model.graph.inputs if value.shape is not None}
    parameters = make_parameters(model, layers)
    return Graph(model, layers, parameters, declared, "onnx", (place,), unknown=tuple(sorted(unknown)))


def _with_sizes(proto: onnx.ModelProto) -> onnx.ModelProto:
    try:
        return onnx.shape_inference.infer_shapes(proto)
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return proto  # its sizes contradict each other


def _sizes(value: ir.Value) -> tuple[int | None, ...]:
    shape = value.shape or ()
    return tuple(size if isinstance(size, int) else None for size in shape)
