"""Operators that TensorFlow's own optimiser joined (remapper.cc): a product, and what lies behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.activations import gelu, rectify
from netweave.formats.tensorflow.operators.convolution import convolution, matmul
from netweave.formats.tensorflow.operators.elementwise import bias_add
from netweave.formats.tensorflow.operators.normalization import fused_batch_norm, normalized_by
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last import Stored, Tensor
    from netweave.formats.tensorflow.context import TensorFlowOperation

ACTIVATIONS = frozenset({"Elu", "Relu", "Relu6", "Sigmoid", "Tanh"})
"""Functions that may stand behind, and are what other frameworks call so too."""


@operator_reader("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_convolution(ctx: TensorFlowOperation) -> Tensor:
    """A convolution, and what ``fused_ops`` names."""
    return _followed(ctx, convolution(ctx))


@operator_reader("_FusedMatMul")
def fused_matmul(ctx: TensorFlowOperation) -> Tensor:
    """A product of matrices, and what ``fused_ops`` names."""
    return _followed(ctx, matmul(ctx))


@operator_reader("_FusedBatchNormEx")
def fused_batch_norm_ex(ctx: TensorFlowOperation) -> Tensor:
    """A normalisation, perhaps with something added, and a rectifier."""
    x = fused_batch_norm(ctx)
    for other in ctx.operands(5, 5 + ctx.integer("num_side_inputs", 0)):
        x = ctx.broadcast("Add", [x, other])
    mode = ctx.string("activation_mode", "Identity")
    return x if mode == "Identity" else _activated(ctx, mode, x)


def _followed(ctx: TensorFlowOperation, x: Tensor) -> Tensor:
    names = [bytes(name).decode("utf-8", "replace") for name in ctx.attribute("fused_ops", [])]
    more = ctx.operands(2, 2 + ctx.integer("num_args", 0))
    for name in names:
        if name == "BiasAdd":
            x = bias_add(ctx, x, _next(ctx, more))
        elif name == "Add":
            x = ctx.broadcast("Add", [x, _next(ctx, more)])
        elif name == "FusedBatchNorm":
            x = normalized_by(ctx, x, [_next(ctx, more) for _ in range(4)])
        else:
            x = _activated(ctx, name, x)
    return x


def _next(ctx: TensorFlowOperation, more: list[Tensor | Stored]) -> Tensor | Stored:
    if not more:
        raise ctx.read_error(f"fused_ops={ctx.attribute('fused_ops')} needs more inputs than the node has")
    return more.pop(0)


def _activated(ctx: TensorFlowOperation, name: str, x: Tensor) -> Tensor:
    if name in ACTIVATIONS:
        return ctx.elementwise(name, x)
    if name == "_FusedHardSwish":
        return ctx.unary("HardSwish", x)
    if name == "LeakyRelu":
        return ctx.elementwise(rectify, x, slope=ctx.number("leakyrelu_alpha", 0.2))
    if name in {"GeluExact", "GeluApproximate"}:
        return ctx.elementwise(gelu, x, approximate=name == "GeluApproximate")
    raise ctx.unsupported(f"{name!r} in fused_ops is not supported")
