"""Reductions (reduction_ops_common.cc, argmax_op.cc, topk_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.channels_last import Tensor, axes
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.call import Call
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
def reduce(call: Call) -> Item:
    """Over some axes."""
    x = call.operand()
    over = call.integers(1, "the axes")
    if not over:
        return x
    return axes.reduce(call.writer, REDUCE[call.op], x, over, keep=bool(call.attribute("keep_dims", False)))


@operator_reader("All", "Any")
def logical(call: Call) -> Tensor:
    """Whether all or any hold, over some axes."""
    numbers = unary(call.writer, "Cast", call.operand(), {"to": int(ir.DataType.INT32)})
    op_type = "ReduceMin" if call.op == "All" else "ReduceMax"
    keep = bool(call.attribute("keep_dims", False))
    made = axes.reduce(call.writer, op_type, numbers, call.integers(1, "the axes"), keep=keep)
    return unary(call.writer, "Cast", made, {"to": int(ir.DataType.BOOL)})


@operator_reader("ArgMax", "ArgMin")
def arg(call: Call) -> Tensor:
    """Number of the first largest or smallest element along an axis."""
    over = call.integers(1, "the axis") if len(call.inputs) > 1 else [0]
    made = axes.arg(call.writer, call.op, call.operand(), over[0])
    return _of_type(call, made, "output_type")


@operator_reader("TopKV2", "TopK")
def top_k(call: Call) -> list[Item]:
    """The largest elements along the last axis, and their numbers."""
    k = call.integers(1, "k") if len(call.inputs) > 1 else [call.whole("k", 1)]
    x = call.writer.source(call.operand())
    made = call.writer.add_many(
        "TopK", [x, call.writer.integers(k)], {"axis": -1, "largest": 1, "sorted": 1}, num_outputs=2
    )
    numbers = call.writer.add("Cast", [made[1]], {"to": int(ir.DataType.INT32)})
    return [Tensor(made[0]), Tensor(numbers)]


@operator_reader("L2Loss")
def l2_loss(call: Call) -> Tensor:
    """Half the sum of all squares."""
    x = call.writer.source(call.operand())
    squares = call.writer.add("ReduceSumSquare", [x], {"keepdims": 0})
    return Tensor(call.writer.add("Mul", [squares, call.writer.number(0.5, squares)]))


@operator_reader("Cumsum")
def cumsum(call: Call) -> Tensor:
    """Sums along an axis, step by step."""
    attributes = {name: int(bool(call.attribute(name, False))) for name in ("exclusive", "reverse")}
    over = call.writer.builder.constant(call.integer(1, "the axis"), dtype="int64")
    return Tensor(call.writer.add("CumSum", [call.writer.source(call.operand()), over], attributes))


@operator_reader("SoftmaxCrossEntropyWithLogits")
def cross_entropy(call: Call) -> Tensor:
    """``-sum(labels * log_softmax(logits))`` over the last axis."""
    logits, labels = call.operand(0), call.operand(1)
    product = broadcast(call.writer, "Mul", [labels, axes.along(call.writer, "LogSoftmax", logits, -1)])
    summed = axes.reduce(call.writer, "ReduceSum", product, [-1], keep=False)
    return unary(call.writer, "Neg", summed)


@operator_reader("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(call: Call) -> Tensor:
    """``-log_softmax(logits)`` at each label."""
    logits = call.writer.source(axes.along(call.writer, "LogSoftmax", call.operand(0), -1))
    labels = call.writer.source(call.operand(1))
    column = call.writer.add("Unsqueeze", [labels, call.writer.integers([-1])])
    picked = call.writer.add("GatherElements", [logits, column], {"axis": -1})
    flat = call.writer.add("Squeeze", [picked, call.writer.integers([-1])])
    return Tensor(call.writer.add("Neg", [flat]))


@operator_reader("InTopK", "InTopKV2")
def in_top_k(call: Call) -> Tensor:
    """Whether a label is among the k largest: as many elements as k are not larger than it."""
    k = call.whole("k", 1) if call.op == "InTopK" else call.integer(2, "k")
    scores, labels = (call.writer.source(x) for x in call.operands(0, 2))
    column = call.writer.add("Unsqueeze", [labels, call.writer.integers([-1])])
    own = call.writer.add("GatherElements", [scores, column], {"axis": -1})
    larger = call.writer.add("Cast", [call.writer.add("Greater", [scores, own])], {"to": 7})
    count = call.writer.add("ReduceSum", [larger, call.writer.integers([-1])], {"keepdims": 0})
    return Tensor(call.writer.add("Less", [count, call.writer.builder.constant(k, dtype="int64")]))


def _of_type(call: Call, made: Tensor, name: str) -> Tensor:
    wanted = ir.DataType.from_numpy(DTYPES.get(str(call.attribute(name, "DT_INT64")), DTYPES["DT_INT64"]))
    if wanted == ir.DataType.INT64:
        return made
    return unary(call.writer, "Cast", made, {"to": int(wanted)})
