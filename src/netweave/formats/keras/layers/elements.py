"""Functions of ``keras.ops`` on each element and over axes, as they stand between layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.lowering import elementwise
from netweave.formats.lowering.channels_last import Operand, Tensor
from netweave.formats.lowering.channels_last.layer import along, reduce

REDUCTIONS = {
    "All": "ReduceMin",
    "Any": "ReduceMax",
    "Max": "ReduceMax",
    "Mean": "ReduceMean",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "Sum": "ReduceSum",
}
"""Functions over axes, and ONNX's name."""


@layer_reader("Absolute", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "LogicalNot", "Negative", "Reciprocal")
@layer_reader("Rsqrt", "Sigmoid", "Sign", "Sin", "Softplus", "Sqrt", "Square", "Tanh")
def function(ctx: KerasLayer) -> Tensor:
    """A function of each element."""
    return ctx.elementwise(ctx.type, ctx.x)


@layer_reader("Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "NotEqual")
def comparison(ctx: KerasLayer) -> Tensor:
    """Of two tensors, or of a tensor and a number."""
    holds = ctx.broadcast(elementwise.find_operator(ctx.type), _two_operands(ctx))
    return ctx.unary("Not", holds) if ctx.type == "NotEqual" else holds


@layer_reader("Gelu")
def gelu(ctx: KerasLayer) -> Tensor:
    """By a tangent (keras/ops/nn), unless it says that it is exact."""
    kind = "tanh" if ctx.boolean("approximate", True) else "none"
    return ctx.unary("Gelu", ctx.x, {"approximate": kind})


@layer_reader("LogSoftmax")
def log_softmax(ctx: KerasLayer) -> Tensor:
    """The logarithm of a softmax, over one axis."""
    return along(ctx, "LogSoftmax", ctx.x, ctx.integer("axis", -1))


@layer_reader("Clip")
def clip(ctx: KerasLayer) -> Tensor:
    """Between two numbers."""
    low, high = ctx.number("x_min", 0.0), ctx.number("x_max", 0.0)
    return ctx.elementwise(elementwise.clip, ctx.x, low=low, high=high)


@layer_reader("Cast")
def cast(ctx: KerasLayer) -> Tensor:
    """As another type of elements."""
    name = ctx.string("dtype", "float32")
    try:
        dtype = ir.DataType.from_numpy(np.dtype(name))
    except TypeError:
        raise ctx.unsupported(f"dtype={name!r:.40} is not a supported element type") from None
    return ctx.as_type(ctx.x, dtype)


@layer_reader(*REDUCTIONS)
def reduction(ctx: KerasLayer) -> Tensor:
    """Over some axes, or all of them; ONNX reduces no truth values."""
    is_logic = ctx.type in {"All", "Any"}
    x = ctx.as_type(ctx.x, ir.DataType.INT32) if is_logic else ctx.x
    reduced = reduce(ctx, REDUCTIONS[ctx.type], x, ctx.axes(), keep=ctx.boolean("keepdims", False))
    return ctx.as_type(reduced, ir.DataType.BOOL) if is_logic else reduced


def _two_operands(ctx: KerasLayer) -> list[Operand]:
    given: list[Any] = [*ctx.args, *ctx.kwargs.values()]
    operands = [value for value in given if isinstance(value, (Tensor, int, float))]
    like = next((value for value in operands if isinstance(value, Tensor)), None)
    if like is None or len(operands) != 2:
        raise ctx.unsupported(f"has {len(operands)} tensors or numbers as inputs, expected 2")
    return [value if isinstance(value, Tensor) else ctx.scalar(value, like) for value in operands]
