"""Writing by index, and places of what is not zero (scatter_nd_op.cc, where_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.call import Call

REDUCTIONS = {
    "TensorScatterUpdate": "none",
    "TensorScatterAdd": "add",
    "TensorScatterSub": "add",
    "TensorScatterMax": "max",
    "TensorScatterMin": "min",
}
"""What becomes of an element that is written to, as ONNX calls it."""


@operator_reader("ScatterNd")
def scatter_nd(call: Call) -> Tensor:
    """Zeros of a size that is given, with entries added to them."""
    writer = call.writer
    updates = writer.source(call.operand(1))
    shape = writer.integers(call.integers(2, "the sizes"))
    zeros = writer.add("Expand", [writer.number(0, updates), shape])
    return Tensor(writer.add("ScatterND", [zeros, _places(call, 0), updates], {"reduction": "add"}))


@operator_reader(*REDUCTIONS)
def tensor_scatter(call: Call) -> Tensor:
    """A tensor with entries written to it, or joined with what is there."""
    writer = call.writer
    tensor, updates = (writer.source(call.operand(index)) for index in (0, 2))
    if call.op == "TensorScatterSub":
        updates = writer.add("Neg", [updates])
    inputs = [tensor, _places(call, 1), updates]
    return Tensor(writer.add("ScatterND", inputs, {"reduction": REDUCTIONS[call.op]}))


def _places(call: Call, index: int) -> ir.Value:
    writer = call.writer
    return writer.add("Cast", [writer.source(call.operand(index))], {"to": int(ir.DataType.INT64)})


@operator_reader("Where")
def where(call: Call) -> Tensor:
    """The places of what is not zero, a row for each; how many there are, only the numbers say."""
    places = call.writer.add("NonZero", [call.writer.source(call.operand())])
    return Tensor(call.writer.add("Transpose", [places], {"perm": [1, 0]}))


@operator_reader("MatrixBandPart")
def band(call: Call) -> Tensor:
    """Matrices with zeros outside of a band; a negative width leaves its side as it is."""
    writer = call.writer
    value = writer.source(call.operand())
    for index, upper in ((1, 1), (2, 0)):
        width = call.integer(index, "the width of the band")
        if width >= 0:
            edge = writer.builder.constant(-width if upper else width, dtype="int64")
            value = writer.add("Trilu", [value, edge], {"upper": upper})
    return Tensor(value)
