"""Activations (tensorflow/core/ops/nn_ops.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last.axes import along
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.tensorflow.call import Call

SAME = {
    "Elu": "Elu",
    "Relu": "Relu",
    "Selu": "Selu",
    "Sigmoid": "Sigmoid",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Tanh": "Tanh",
}
"""Operators that ONNX has under the same rule."""


@operator_reader(*SAME)
def same(call: Call) -> Tensor:
    """An activation that ONNX has too."""
    return unary(call.writer, SAME[call.op], call.operand())


@operator_reader("Relu6")
def relu6(call: Call) -> Tensor:
    """``min(max(x, 0), 6)``."""
    x = call.operand()
    limits = [call.writer.builder.constant(0.0), call.writer.builder.constant(6.0)]
    return unary(call.writer, "Clip", x, more=limits)


@operator_reader("LeakyRelu")
def leaky_relu(call: Call) -> Tensor:
    """``x`` above 0, ``alpha * x`` below."""
    return unary(call.writer, "LeakyRelu", call.operand(), {"alpha": call.real("alpha", 0.2)})


@operator_reader("Softmax", "LogSoftmax")
def softmax(call: Call) -> Tensor:
    """Over the last axis."""
    return along(call.writer, call.op, call.operand(), -1)


@operator_reader("SwishF32", "swish_f32")
def swish(call: Call) -> Tensor:
    """``x * sigmoid(x)``."""
    x = call.operand()
    return broadcast(call.writer, "Mul", [x, unary(call.writer, "Sigmoid", x)])


@operator_reader("Dropout")
def dropout(call: Call) -> Tensor:
    """A group of nodes that is a dropout (``patterns``); nothing is dropped in a net that predicts."""
    x, ratio = call.operand(), call.attribute("ratio")
    if not isinstance(ratio, float) or not 0 <= ratio < 1:
        return unary(call.writer, "Identity", x)
    return unary(call.writer, "Dropout", x, more=[call.writer.builder.constant(ratio)])
