"""Half-precision numbers in a graph, as float32 with a pair of Casts for each rounding, and stored arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import parameter_key, parameter_layout
from netweave.graph.parameters import apply_layout
from netweave.graph.passes.rewriting import Rewriter
from netweave.graph.passes.rounding.formats import FLOATS, Quantiser, StoredRounding
from netweave.graph.passes.rounding.layers import NotExplicitError

if TYPE_CHECKING:
    from netweave.graph import Graph, Parameter


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


MAX_INTEGER = 2.0**62
"""What a damaged scale makes of a number; every integer of a file is less."""


def stored_formats(graph: Graph) -> dict[str, StoredRounding]:
    """Return how initializers are stored, by name, as their parameters say it.

    Raises:
        NotExplicitError: The scales of an array run along no axis of the initializer made from it.
    """
    stored = {}
    for name, value in graph.model.graph.initializers.items():
        parameter = graph.parameters.get(parameter_key(value) or "")
        if parameter is None or parameter.stored_format is None or value.const_value is None:
            continue
        dtype = ir.DataType[parameter.stored_format.dtype.upper()]
        if dtype in FLOATS:
            stored[str(name)] = StoredRounding(dtype)
            continue
        quantiser = _quantiser(parameter, value, dtype)
        real = value.const_value.numpy().astype(np.float64)
        zero = quantiser.spread(quantiser.zero_point, real.shape)
        steps = np.where(quantiser.steps(real.shape) == 0, 1.0, quantiser.steps(real.shape))
        integers = (
            np.nan_to_num(np.rint(real / steps)).clip(-MAX_INTEGER, MAX_INTEGER).astype(np.int64) + zero
        )
        stored[str(name)] = StoredRounding(dtype, quantiser, integers)
    return stored


def _quantiser(parameter: Parameter, value: ir.Value, dtype: ir.DataType) -> Quantiser:
    """Return how an initializer stands for its integers: scales along its own axis."""
    known = parameter.stored_format
    assert known is not None
    scale, zero = np.asarray(known.scale, np.float32), np.asarray(known.zero_point, np.int64)
    if scale.size == 1:
        return Quantiser(dtype, scale.reshape(()), zero.reshape(-1)[:1].reshape(()))
    # the layout is followed with the index of the scale in the place of each number
    along = [-1 if axis == known.axis else 1 for axis in range(len(parameter.shape))]
    indices = np.broadcast_to(np.arange(scale.size).reshape(along), parameter.shape)
    laid = apply_layout(indices, parameter_layout(value))
    for axis in range(laid.ndim):
        rows = np.moveaxis(laid, axis, 0).reshape(laid.shape[axis], -1)
        if (rows == rows[:, :1]).all():
            zeros = zero if zero.size == 1 else zero[rows[:, 0]]
            return Quantiser(dtype, scale[rows[:, 0]], zeros, axis)
    raise NotExplicitError(f"the scales of {parameter.key!r} run along no axis of {value.name!r}")
