"""Activations (tensorflow/core/ops/nn_ops.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.tensorflow.registry import operator_reader
from netweave.lowering.channels_last.axes import along

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.lowering.channels_last import Tensor


@operator_reader("Elu", "Relu", "Relu6", "Selu", "Sigmoid", "Softplus", "Softsign", "Tanh")
def activation(ctx: TensorFlowOperation) -> Tensor:
    """An activation that is what other frameworks call so too."""
    return ctx.elementwise(ctx.op, ctx.x)


@operator_reader("SwishF32", "swish_f32")
def swish(ctx: TensorFlowOperation) -> Tensor:
    """``x * sigmoid(x)``."""
    return ctx.elementwise("swish", ctx.x)


@operator_reader("LeakyRelu")
def leaky_relu(ctx: TensorFlowOperation) -> Tensor:
    """``x`` above 0, ``alpha * x`` below."""
    return ctx.unary("LeakyRelu", ctx.x, {"alpha": ctx.number("alpha", 0.2)})


@operator_reader("Softmax", "LogSoftmax")
def softmax(ctx: TensorFlowOperation) -> Tensor:
    """Over the last axis."""
    return along(ctx, ctx.op, ctx.x, -1)


@operator_reader("Dropout")
def dropout(ctx: TensorFlowOperation) -> Tensor:
    """A group of nodes that is a dropout (``patterns``); nothing is dropped in a net that predicts."""
    ratio = ctx.attribute("ratio")
    if not isinstance(ratio, float) or not 0 <= ratio < 1:
        return ctx.unary("Identity", ctx.x)
    return ctx.unary("Dropout", ctx.x, more=[ctx.constant(ratio)])
