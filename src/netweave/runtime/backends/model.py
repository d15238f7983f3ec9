"""A segment of a graph as the bytes of an ONNX model, with the large arrays beside it or inside.

Of shapes, a runtime is given those of the net's inputs at most: it infers all others by itself, so that no
size of ours can contradict it. Large arrays never pass through protobuf, whose messages end at 2 GB.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx_ir as ir

if TYPE_CHECKING:
    from netweave.runtime.backends.segmented import Segment

INLINE_BYTES = 1024
"""Arrays up to this size stay in the model, where shape inference sees them (axes, shapes, pads)."""

MIN_FED_BYTES = 1 << 20
"""Arrays from this size on can be inputs of the model instead; each costs a look-up in each run."""

_FED = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16})
"""Element types of these: a quantised operator may ask for integers that are stored."""

_BY_REFERENCE = frozenset(
    {
        ir.DataType.FLOAT,
        ir.DataType.DOUBLE,
        ir.DataType.FLOAT16,
        ir.DataType.INT8,
        ir.DataType.INT16,
        ir.DataType.INT32,
        ir.DataType.INT64,
        ir.DataType.UINT8,
        ir.DataType.UINT16,
        ir.DataType.UINT32,
        ir.DataType.UINT64,
    }
)
"""Element types of which ONNX Runtime takes a NumPy array as it is."""


@dataclass(frozen=True, slots=True)
class SegmentModel:
    """The serialized segment and its external arrays, from which a runtime session is created.

    Attributes:
        content: The serialised model.
        arrays: Arrays of the initializers that the model only names, by name.
        fed: Arrays of the initializers that are inputs of the model, by name.
    """

    content: bytes
    arrays: dict[str, np.ndarray]
    fed: dict[str, np.ndarray]


def build_model(
    segment: Segment,
    model: ir.Model,
    opsets: Mapping[str, int],
    *,
    by_reference: bool,
    feeds_weights: bool = False,
    sized: Collection[ir.Value] = (),
) -> SegmentModel:
    """Write a segment as a model of its own.

    Args:
        segment: Nodes that the runtime can run.
        model: The model that they belong to, for its functions.
        opsets: Opset versions by domain, without domains that the runtime does not know.
        by_reference: Leave large arrays out of the model, which then only names them.
        feeds_weights: Make inputs of the largest of them.
        sized: Inputs whose sizes are written, an open one by its name (``open_size``); of others the rank.
    """
    proto = onnx.ModelProto(ir_version=min(model.ir_version, 10))
    for domain, version in opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    proto.functions.extend(ir.serde.serialize_function(function) for function in model.functions.values())
    proto.graph.name = "segment"
    for node in segment.nodes:
        written = proto.graph.node.add()
        ir.serde.serialize_node_into(written, node)
        written.ClearField("metadata_props")
    for value in segment.inputs:
        _write_type(proto.graph.input.add(name=value.name or ""), value, with_sizes=value in sized)
    for value in segment.outputs:
        proto.graph.output.add(name=value.name or "")
    arrays: dict[str, np.ndarray] = {}
    fed: dict[str, np.ndarray] = {}
    for value in segment.initializers:
        if feeds_weights and _is_fed(value):
            fed[value.name or ""] = _write_fed(proto.graph, value)
            continue
        array = _write_initializer(proto.graph, value, by_reference=by_reference)
        if array is not None:
            arrays[value.name or ""] = array
    return SegmentModel(proto.SerializeToString(), arrays, fed)


def open_size(name: str, axis: int) -> str:
    """Return what an open size of an input is called: each has its own name, since any may be given."""
    return f"{name}[{axis}]"


def _is_fed(value: ir.Value) -> bool:
    tensor = value.const_value
    return tensor is not None and tensor.nbytes >= MIN_FED_BYTES and tensor.dtype in _FED


def _write_fed(graph: onnx.GraphProto, value: ir.Value) -> np.ndarray:
    """Write an initializer as an input of its sizes, and return its array."""
    tensor = value.const_value
    assert tensor is not None
    kind = graph.input.add(name=value.name or "").type.tensor_type
    kind.elem_type = int(tensor.dtype)
    for size in tensor.shape.numpy():
        kind.shape.dim.add(dim_value=size)
    return np.asarray(tensor.numpy(), order="C")


def _write_type(info: onnx.ValueInfoProto, value: ir.Value, *, with_sizes: bool) -> None:
    if value.type is None:
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    else:
        ir.serde.serialize_type_into(info.type, value.type)
    if value.shape is not None and info.type.HasField("tensor_type"):
        shape = info.type.tensor_type.shape
        shape.SetInParent()
        for axis, size in enumerate(value.shape):
            written = shape.dim.add()
            if with_sizes and isinstance(size, int):
                written.dim_value = size
            elif with_sizes:
                written.dim_param = open_size(value.name or "", axis)


def _write_initializer(graph: onnx.GraphProto, value: ir.Value, *, by_reference: bool) -> np.ndarray | None:
    """Write an initializer and return its array if the model only names it."""
    tensor = value.const_value
    if tensor is None:
        raise AssertionError(f"initializer {value.name!r} has no values")
    written = graph.initializer.add()
    if tensor.dtype not in _BY_REFERENCE:
        inside = (
            ir.Tensor(tensor.numpy(), dtype=tensor.dtype) if isinstance(tensor, ir.ExternalTensor) else tensor
        )
        written.CopyFrom(ir.serde.serialize_tensor(inside))
        written.name = value.name or ""
        return None
    written.name, written.data_type = value.name or "", int(tensor.dtype)
    array = np.asarray(tensor.numpy(), order="C")
    written.dims.extend(array.shape)
    if not by_reference or array.nbytes <= INLINE_BYTES:
        written.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        return None
    written.data_location = onnx.TensorProto.EXTERNAL
    written.external_data.add(key="location", value="given by the caller")
    return array
