"""Reading by index (gather_op.cc, one_hot_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import gather
from netweave.formats.tensorflow.operands import Handle
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.call import Call


@operator_reader("Gather", "GatherV2")
def gathered(call: Call) -> Tensor:
    """Entries along an axis."""
    axis = call.integers(2, "the axis")[0] if len(call.inputs) > 2 else 0
    batch_dims = call.whole("batch_dims", 0)
    if batch_dims:
        raise call.refuse(f"batch_dims={batch_dims}: only 0 is read")
    return gather(call.writer, call.operand(0), call.writer.source(call.operand(1)), axis)


@operator_reader("ResourceGather")
def resource_gather(call: Call) -> Tensor:
    """Rows of a variable: an embedding."""
    handle = call.item(0)
    if not isinstance(handle, Handle):
        raise call.refuse("reads rows of something that is no variable")
    table = call.interpreter.variables.value(handle.name, call.place)
    return gather(call.writer, table, call.writer.source(call.operand(1)), 0)


@operator_reader("GatherNd")
def gather_nd(call: Call) -> Tensor:
    """Entries by several numbers each."""
    data, indices = (call.writer.source(x) for x in call.operands(0, 2))
    numbers = call.writer.add("Cast", [indices], {"to": int(ir.DataType.INT64)})
    return Tensor(call.writer.add("GatherND", [data, numbers]))


@operator_reader("OneHot")
def one_hot(call: Call) -> Tensor:
    """``on`` at each number, ``off`` elsewhere, along a new axis."""
    depth = call.integers(1, "the depth")
    on, off = (call.constant(index, what).reshape(-1)[0] for index, what in ((2, "on"), (3, "off")))
    values = call.writer.builder.constant(np.asarray([off, on]), dtype=np.asarray(on).dtype)
    indices = call.writer.source(call.operand(0))
    attributes = {"axis": call.whole("axis", -1)}
    return Tensor(call.writer.add("OneHot", [indices, call.writer.integers(depth), values], attributes))
