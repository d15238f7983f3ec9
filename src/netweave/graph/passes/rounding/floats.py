"""Half-precision numbers in a graph: arithmetic in float32, with each rounding as a pair of Casts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.rewriting import Rewriter
from netweave.graph.passes.rounding.formats import FLOATS, StoredRounding

if TYPE_CHECKING:
    from netweave.graph import Graph

FLOAT = ir.DataType.FLOAT

EXACT = frozenset(
    {
        "Abs", "Clip", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
        "Identity", "Max", "MaxPool", "Min", "Neg", "Pad", "Relu", "Reshape", "ScatterElements", "ScatterND",
        "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""Operators whose results are numbers that they read: what was rounded before is not rounded again."""


def widen(graph: Graph) -> dict[str, StoredRounding]:
    """Make a graph with half-precision numbers compute in float32, in place.

    What a node returned in half precision passes through two Casts, there and back: that is what the format
    costs. Sums inside a node are in float32, as processors and accelerators accumulate them.

    Returns:
        How the arrays that were stored in half precision were stored, by initializer.
    """
    stored = _widen_arrays(graph)
    rewriter = Rewriter(graph)
    for value in graph.inputs:
        if value.dtype in FLOATS:
            _round_input(rewriter, value, value.dtype)
    for node in list(graph.nodes):
        if node.op_type == "Cast" and not node.domain:
            _widen_cast(rewriter, node)
        else:
            _widen_node(rewriter, node)
    return stored


def _widen_arrays(graph: Graph) -> dict[str, StoredRounding]:
    stored = {}
    for name, value in graph.model.graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in FLOATS:
            continue
        stored[name] = StoredRounding(tensor.dtype)
        value.const_value = ir.Tensor(np.asarray(tensor.numpy(), np.float32), name=name)
        value.type = ir.TensorType(FLOAT)
    return stored


def _round_input(rewriter: Rewriter, value: ir.Value, dtype: ir.DataType) -> None:
    value.type = ir.TensorType(FLOAT)
    readers = {node for node, _ in value.uses()}
    first = next((node for node in rewriter.graph.nodes if node in readers), None)
    if first is not None:
        narrow = rewriter.insert(first, "Cast", [None], {"to": int(dtype)})
        wide = rewriter.insert(first, "Cast", [narrow.outputs[0]], {"to": int(FLOAT)})
        _read_through(value, narrow, wide, dtype)


def _widen_cast(rewriter: Rewriter, node: ir.Node) -> None:
    """Let a Cast to half precision go there and back, and one from it do nothing."""
    source, target = node.inputs[0], ir.DataType(node.attributes["to"].as_int())
    if source is None:
        return
    if source.dtype == FLOAT and (
        target == FLOAT or (target in FLOATS and node.outputs[0].is_graph_output())
    ):
        rewriter.bypass(node, source)
    elif target in FLOATS and source.dtype == FLOAT:
        made = node.outputs[0]
        wide = rewriter.append(node, "Cast", [None], {"to": int(FLOAT)}, output=made.name)
        _read_through(made, wide, wide, FLOAT)
    elif target in FLOATS:  # from integers or truth values
        node.attributes["to"] = ir.AttrInt64("to", int(FLOAT))
        node.outputs[0].type = ir.TensorType(FLOAT)


def _widen_node(rewriter: Rewriter, node: ir.Node) -> None:
    narrow = [(value, value.dtype) for value in node.outputs if value.dtype in FLOATS]
    if not narrow:
        return
    constant = node.attributes.get("value")
    if constant is not None and constant.type == ir.AttributeType.TENSOR:
        values = np.asarray(constant.as_tensor().numpy(), np.float32)
        node.attributes["value"] = ir.AttrTensor("value", ir.Tensor(values))
    if "dtype" in node.attributes:
        node.attributes["dtype"] = ir.AttrInt64("dtype", int(FLOAT))
    for value, dtype in narrow:
        value.type = ir.TensorType(FLOAT)
        if node.op_type not in EXACT and value.uses() and dtype is not None:
            there = rewriter.append(node, "Cast", [None], {"to": int(dtype)}, output=value.name)
            back = rewriter.append(there, "Cast", there.outputs, {"to": int(FLOAT)}, output=value.name)
            _read_through(value, there, back, dtype)


def _read_through(value: ir.Value, there: ir.Node, back: ir.Node, dtype: ir.DataType) -> None:
    """Let everything that reads a value read what two Casts make of it.

    An output of the net stays as it is computed: its name belongs to the node's own value.
    """
    for reader, index in list(value.uses()):
        reader.replace_input_with(index, back.outputs[0])
    there.replace_input_with(0, value)
    there.outputs[0].type = ir.TensorType(dtype)
    back.outputs[0].type = ir.TensorType(FLOAT)
    there.outputs[0].shape = back.outputs[0].shape = value.shape
