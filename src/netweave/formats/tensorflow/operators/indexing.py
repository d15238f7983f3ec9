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
    axis = call.integer(2, "the axis") if len(call.inputs) > 2 else 0
    if call.whole("batch_dims", 0):
        return _gathered_apart(call, axis)
    return gather(call.writer, call.operand(0), call.writer.source(call.operand(1)), axis)


def _gathered_apart(call: Call, axis: int) -> Tensor:
    """Return entries along an axis, each example of the axes before by its own numbers."""
    writer, data = call.writer, call.operand(0)
    ranks = [len(call.shape(x)) for x in call.operands(0, 2)]
    batch_dims = writer.axis(call.whole("batch_dims", 0), ranks[1])
    if writer.axis(axis, ranks[0]) != batch_dims:
        raise call.refuse(f"batch_dims={batch_dims} and axis={axis}: only an axis behind them is read")
    numbers = writer.add("Cast", [writer.source(call.operand(1))], {"to": int(ir.DataType.INT64)})
    places = writer.add("Unsqueeze", [numbers, writer.integers([-1])])
    return Tensor(writer.add("GatherND", [writer.source(data), places], {"batch_dims": batch_dims}))


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
    """``on`` at each number, ``off`` elsewhere, along a new axis; ONNX counts those below 0 from the end."""
    depth = call.integer(1, "the depth")
    on, off = (call.constant(index, what).reshape(-1)[0] for index, what in ((2, "on"), (3, "off")))
    values = call.writer.builder.constant(np.asarray([off, on]), dtype=np.asarray(on).dtype)
    indices = call.writer.add("Cast", [call.writer.source(call.operand(0))], {"to": int(ir.DataType.INT64)})
    below = call.writer.add("Less", [indices, call.writer.number(0, indices)])
    nowhere = call.writer.number(depth, indices)
    indices = call.writer.add("Where", [below, nowhere, indices])
    attributes = {"axis": call.whole("axis", -1)}
    return Tensor(call.writer.add("OneHot", [indices, call.writer.integers([depth]), values], attributes))


@operator_reader("ReverseSequence")
def reverse_sequence(call: Call) -> Tensor:
    """Each example backwards as far as it goes, what lies behind staying there."""
    writer, rank = call.writer, len(call.shape(call.operand(0)))
    attributes = {
        name: writer.axis(call.whole(of, 0), rank)
        for name, of in (("time_axis", "seq_dim"), ("batch_axis", "batch_dim"))
    }
    if sorted(attributes.values()) != [0, 1]:
        raise call.refuse(
            f"seq_dim={attributes['time_axis']}, batch_dim={attributes['batch_axis']} is not read"
        )
    lengths = writer.add("Cast", [writer.source(call.operand(1))], {"to": int(ir.DataType.INT64)})
    return Tensor(writer.add("ReverseSequence", [writer.source(call.operand(0)), lengths], attributes))
