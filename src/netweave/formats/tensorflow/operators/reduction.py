"""Reductions (reduction_ops_common.cc, argmax_op.cc, topk_op.cc)."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Tensor, layer
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.nodes import TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Item

REDUCE = {
    "EuclideanNorm": "ReduceL2",
    "Max": "ReduceMax",
    "Mean": "ReduceMean",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "Sum": "ReduceSum",
}
"""Reductions, and ONNX's name."""


@operator_reader(*REDUCE)
def reduce(ctx: TensorFlowOperation) -> Item:
    """Over some axes."""
    x = ctx.operand()
    over = ctx.integers_input(1, "the axes")
    if not over:
        return x
    return layer.reduce(ctx, REDUCE[ctx.op], x, over, keep=bool(ctx.attribute("keep_dims", False)))


@operator_reader("All", "Any")
def logical(ctx: TensorFlowOperation) -> Tensor:
    """Return whether all or any hold, over some axes; ONNX reduces no truth values."""
    numbers = ctx.as_type(ctx.x, ir.DataType.INT32)
    op_type = "ReduceMin" if ctx.op == "All" else "ReduceMax"
    keep = bool(ctx.attribute("keep_dims", False))
    reduced = layer.reduce(ctx, op_type, numbers, ctx.integers_input(1, "the axes"), keep=keep)
    return ctx.as_type(reduced, ir.DataType.BOOL)


@operator_reader("ArgMax", "ArgMin")
def arg(ctx: TensorFlowOperation) -> Tensor:
    """Number of the first largest or smallest element along an axis."""
    axis = ctx.integer_input(1, "the axis") if len(ctx.inputs) > 1 else 0
    dtype = ir.DataType.from_numpy(DTYPES.get(str(ctx.attribute("output_type")), DTYPES["DT_INT64"]))
    numbers = layer.arg(ctx, ctx.op, ctx.x, axis)
    return numbers if dtype == ir.DataType.INT64 else ctx.as_type(numbers, dtype)


@operator_reader("TopKV2", "TopK")
def top_k(ctx: TensorFlowOperation) -> list[Item]:
    """The largest elements along the last axis, and their numbers."""
    k = ctx.integers_input(1, "k") if len(ctx.inputs) > 1 else [ctx.integer("k", 1)]
    attributes = {"axis": -1, "largest": 1, "sorted": 1}
    inputs = [ctx.source(ctx.x), ctx.integers(k)]
    largest, numbers = ctx.add_many("TopK", inputs, attributes, outputs=2)
    return [Tensor(largest), ctx.as_type(numbers, ir.DataType.INT32)]


@operator_reader("L2Loss")
def l2_loss(ctx: TensorFlowOperation) -> Tensor:
    """Half the sum of all squares."""
    squares = ctx.add("ReduceSumSquare", [ctx.x], {"keepdims": 0})
    return Tensor(ctx.add("Mul", [squares, ctx.scalar(0.5, squares)]))


@operator_reader("Cumsum")
def cumsum(ctx: TensorFlowOperation) -> Tensor:
    """Sums along an axis, step by step."""
    attributes = {name: int(bool(ctx.attribute(name, False))) for name in ("exclusive", "reverse")}
    axis = ctx.constant(ctx.integer_input(1, "the axis"), dtype=np.int64)
    return Tensor(ctx.add("CumSum", [ctx.x, axis], attributes))


@operator_reader("SoftmaxCrossEntropyWithLogits")
def cross_entropy(ctx: TensorFlowOperation) -> Tensor:
    """``-sum(labels * log_softmax(logits))`` over the last axis."""
    logits, labels = ctx.operands(0, 2)
    product = ctx.broadcast("Mul", [labels, layer.along(ctx, "LogSoftmax", logits, -1)])
    return ctx.unary("Neg", layer.reduce(ctx, "ReduceSum", product, [-1], keep=False))


@operator_reader("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(ctx: TensorFlowOperation) -> Tensor:
    """``-log_softmax(logits)`` at each label."""
    scores = _at_labels(ctx, layer.along(ctx, "LogSoftmax", ctx.x, -1), ctx.operand(1))
    return ctx.unary("Neg", layer.drop(ctx, scores, [-1]))


@operator_reader("InTopK", "InTopKV2")
def in_top_k(ctx: TensorFlowOperation) -> Tensor:
    """Return whether a label is among the k largest: fewer than k elements are larger than its own."""
    k = ctx.integer("k", 1) if ctx.op == "InTopK" else ctx.integer_input(2, "k")
    larger = ctx.add("Greater", [ctx.x, _at_labels(ctx, ctx.x, ctx.operand(1))])
    count = layer.reduce(ctx, "ReduceSum", ctx.as_type(larger, ir.DataType.INT64), [-1], keep=False)
    return Tensor(ctx.add("Less", [count, ctx.constant(k, dtype=np.int64)]))


def _at_labels(ctx: TensorFlowOperation, scores: Operand, labels: Operand) -> ir.Value:
    """Return the score (batch, 1) of each example at its label."""
    return ctx.add("GatherElements", [scores, ctx.unsqueeze(labels, [-1])], {"axis": -1})
