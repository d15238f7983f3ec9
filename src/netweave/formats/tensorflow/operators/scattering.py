"""Writing by index, and places of what is not zero (scatter_nd_op.cc, where_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.tensorflow.registry import operator_reader
from netweave.lowering.channels_last import Tensor

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.lowering.channels_last import Operand

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
