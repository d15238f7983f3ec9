"""Reading and writing by index, and places of what is not zero.

gather_op.cc, one_hot_op.cc, scatter_nd_op.cc and where_op.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.channels_last.axes import gather
from netweave.formats.tensorflow.operands import Handle
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last import Operand
    from netweave.formats.tensorflow.context import TensorFlowOperation


@operator_reader("Gather", "GatherV2")
def gathered(ctx: TensorFlowOperation) -> Tensor:
    """Entries along an axis."""
    axis = ctx.integer_input(2, "the axis") if len(ctx.inputs) > 2 else 0
    if ctx.integer("batch_dims", 0):
        return _gathered_apart(ctx, axis)
    return gather(ctx, ctx.x, ctx.operand(1), axis)


def _gathered_apart(ctx: TensorFlowOperation, axis: int) -> Tensor:
    """Return entries along an axis, each example of the axes before by its own numbers."""
    x, numbers = ctx.operands(0, 2)
    batch_dims = ctx.axis(ctx.integer("batch_dims", 0), ctx.rank(numbers))
    if ctx.axis(axis) != batch_dims:
        raise ctx.unsupported(
            f"batch_dims={batch_dims} and axis={axis}: only an axis after them is supported"
        )
    places = ctx.unsqueeze(ctx.as_type(numbers, ir.DataType.INT64), [-1])
    return Tensor(ctx.add("GatherND", [x, places], {"batch_dims": batch_dims}))


@operator_reader("ResourceGather")
def resource_gather(ctx: TensorFlowOperation) -> Tensor:
    """Rows of a variable: an embedding."""
    handle = ctx.item(0)
    if not isinstance(handle, Handle):
        raise ctx.unsupported("reads rows of something that is not a variable")
    table = ctx.interpreter.variables.value(handle.name, ctx.place)
    return gather(ctx, table, ctx.operand(1), 0)


@operator_reader("GatherNd")
def gather_nd(ctx: TensorFlowOperation) -> Tensor:
    """Entries by several numbers each."""
    return Tensor(ctx.add("GatherND", [ctx.x, ctx.as_type(ctx.operand(1), ir.DataType.INT64)]))


@operator_reader("OneHot")
def one_hot(ctx: TensorFlowOperation) -> Tensor:
    """``on`` at each number, ``off`` elsewhere, along a new axis; ONNX counts those below 0 from the end."""
    depth = ctx.integer_input(1, "the depth")
    on, off = (ctx.constant_input(index, what).reshape(-1)[0] for index, what in ((2, "on"), (3, "off")))
    values = ctx.constant(np.asarray([off, on]), dtype=np.asarray(on).dtype)
    numbers = ctx.as_type(ctx.x, ir.DataType.INT64)
    below = ctx.add("Less", [numbers, ctx.scalar(0, numbers)])
    within = ctx.add("Where", [below, ctx.scalar(depth, numbers), numbers])
    inputs = [within, ctx.integers([depth]), values]
    return Tensor(ctx.add("OneHot", inputs, {"axis": ctx.integer("axis", -1)}))


@operator_reader("ReverseSequence")
def reverse_sequence(ctx: TensorFlowOperation) -> Tensor:
    """Each example backwards as far as it goes, what lies behind staying there."""
    time_axis, batch_axis = (ctx.axis(ctx.integer(name, 0)) for name in ("seq_dim", "batch_dim"))
    if sorted([time_axis, batch_axis]) != [0, 1]:
        raise ctx.unsupported(f"seq_dim={time_axis}, batch_dim={batch_axis} is not supported")
    lengths = ctx.as_type(ctx.operand(1), ir.DataType.INT64)
    attributes = {"time_axis": time_axis, "batch_axis": batch_axis}
    return Tensor(ctx.add("ReverseSequence", [ctx.x, lengths], attributes))


REDUCTIONS = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterSub": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
}
"""What becomes of an element that is written to, as ONNX calls it."""


@operator_reader("ScatterNd")
def scatter_nd(ctx: TensorFlowOperation) -> Tensor:
    """Zeros of a size that is given, with entries added to them."""
    places, updates = ctx.operands(0, 2)
    sizes = ctx.integers(ctx.integers_input(2, "the sizes"))
    zeros = ctx.add("Expand", [ctx.scalar(0, updates), sizes])
    inputs: list[Operand] = [zeros, ctx.as_type(places, ir.DataType.INT64), updates]
    return Tensor(ctx.add("ScatterND", inputs, {"reduction": "add"}))


@operator_reader(*REDUCTIONS)
def tensor_scatter(ctx: TensorFlowOperation) -> Tensor:
    """A tensor with entries written to it, or joined with what is there."""
    x, places, updates = ctx.operands(0, 3)
    if ctx.op == "TensorScatterSub":
        updates = ctx.unary("Neg", updates)
    inputs: list[Operand] = [x, ctx.as_type(places, ir.DataType.INT64), updates]
    return Tensor(ctx.add("ScatterND", inputs, {"reduction": REDUCTIONS[ctx.op]}))


@operator_reader("Where")
def where(ctx: TensorFlowOperation) -> Tensor:
    """The places of what is not zero, a row for each; how many there are, only the numbers say."""
    return Tensor(ctx.transpose(ctx.add("NonZero", [ctx.x]), [1, 0]))


@operator_reader("MatrixBandPart")
def band(ctx: TensorFlowOperation) -> Tensor:
    """Matrices with zeros outside of a band; a negative width leaves its side as it is."""
    value = ctx.source(ctx.x)
    for index, upper in ((1, 1), (2, 0)):
        width = ctx.integer_input(index, "the width of the band")
        if width >= 0:
            edge = ctx.constant(-width if upper else width, dtype=np.int64)
            value = ctx.add("Trilu", [value, edge], {"upper": upper})
    return Tensor(value)
