"""Operators on each element, activations, normalisations, and changes of type.

tensorflow/lite/kernels: activations.cc, elementwise.cc, l2norm.cc, cast.cc, quantize.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Stored, Tensor
from netweave.formats.lowering.channels_last.layer import along, reduce
from netweave.formats.lowering.elementwise import clip, gelu
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.lite.registry import lite_operator
from netweave.formats.tensorflow.operands import Item

if TYPE_CHECKING:
    from netweave.formats.tensorflow.lite.context import LiteOperator

PLAIN = {
    **{name: name.title().replace("_", "") for name in (
        "ABS", "CEIL", "COS", "ELU", "EQUAL", "EXP", "FLOOR", "FLOOR_DIV", "FLOOR_MOD", "GREATER",
        "GREATER_EQUAL", "LESS", "LESS_EQUAL", "LOG", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "MAXIMUM",
        "MINIMUM", "MUL", "NEG", "NOT_EQUAL", "POW", "RELU", "RELU6", "ROUND", "RSQRT", "SELECT", "SIGN",
        "SIN", "SQRT", "SQUARE", "SQUARED_DIFFERENCE", "SUB", "TANH", "ZEROS_LIKE",
    )},
    "ADD": "AddV2",
    "ADD_N": "AddN",
    "DIV": "RealDiv",
    "LOGISTIC": "Sigmoid",
    "SELECT_V2": "SelectV2",
}  # fmt: skip
"""Operators that are one of TensorFlow's, without attributes."""


@lite_operator(*PLAIN)
def plain(ctx: LiteOperator) -> list[Item]:
    """An operator of TensorFlow."""
    return ctx.call(PLAIN[ctx.op])


@lite_operator("RELU_N1_TO_1", "RELU_0_TO_1")
def bounded(ctx: LiteOperator) -> Tensor:
    """Between two numbers."""
    return ctx.elementwise(clip, ctx.x, low=-1.0 if ctx.op == "RELU_N1_TO_1" else 0.0, high=1.0)


@lite_operator("LEAKY_RELU")
def leaky_relu(ctx: LiteOperator) -> list[Item]:
    """``x`` above 0, ``alpha * x`` below."""
    return ctx.call("LeakyRelu", attributes={"alpha": ctx.number("alpha", 0.0)})


@lite_operator("PRELU")
def prelu(ctx: LiteOperator) -> Tensor:
    """A slope below 0 that is stored, for each place or shared over some axes."""
    slope = ctx.operand(1)
    return ctx.broadcast("PRelu", [ctx.x, slope.with_role("slope") if isinstance(slope, Stored) else slope])


@lite_operator("HARD_SWISH")
def hard_swish(ctx: LiteOperator) -> Tensor:
    """``x * relu6(x + 3) / 6``."""
    return ctx.unary("HardSwish", ctx.x)


@lite_operator("GELU")
def gaussian(ctx: LiteOperator) -> Tensor:
    """``x * normal_cdf(x)``, or its approximation with tanh."""
    return ctx.elementwise(gelu, ctx.x, approximate=bool(ctx.setting("approximate", False)))


@lite_operator("SOFTMAX")
def softmax(ctx: LiteOperator) -> Tensor:
    """Over the last axis, of ``beta * x``."""
    x, beta = ctx.tensor(ctx.x), ctx.number("beta", 1.0)
    scaled = x if beta == 1 else ctx.broadcast("Mul", [x, ctx.scalar(beta, x)])
    return along(ctx, "Softmax", scaled, -1)


@lite_operator("LOG_SOFTMAX")
def log_softmax(ctx: LiteOperator) -> Tensor:
    """Over the last axis."""
    return along(ctx, "LogSoftmax", ctx.x, -1)


SMALLEST_NORM = 1e-6
"""What L2_NORMALIZATION divides by at least."""


@lite_operator("L2_NORMALIZATION")
def l2_normalization(ctx: LiteOperator) -> Tensor:
    """Divided by the root of the sum of squares over the last axis."""
    norm = reduce(ctx, "ReduceL2", ctx.x, [-1], keep=True)
    return ctx.broadcast("Div", [ctx.x, ctx.broadcast("Max", [norm, ctx.scalar(SMALLEST_NORM, norm)])])


@lite_operator("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(ctx: LiteOperator) -> list[Item]:
    """``x * (bias + alpha * sum of squares) ** -beta``."""
    attributes = {"depth_radius": ctx.integer("radius", 0)}
    return ctx.call("LRN", attributes=attributes | {k: ctx.number(k, 0.0) for k in ("bias", "alpha", "beta")})


@lite_operator("CAST")
def cast(ctx: LiteOperator) -> list[Item]:
    """Another element type; the tensor says which, also where the options are left out."""
    if any(tensor.quantization for tensor in (*ctx.tensors.outputs, *filter(None, ctx.tensors.inputs))):
        raise ctx.unsupported("casts integers that stand for real numbers, which is not supported")
    if not ctx.tensors.outputs:
        raise ctx.read_error("has no output")
    return ctx.call("Cast", attributes={"DstT": ctx.tensors.outputs[0].real_type})


@lite_operator("QUANTIZE", "DEQUANTIZE", moves=True)
def quantize(ctx: LiteOperator) -> Item:
    """The same real numbers; ``LiteOperator.finished`` brings them to the scale of the output."""
    x = ctx.operand()
    if isinstance(x, Stored):
        return _as_float(x)
    is_float = x.value.dtype in {None, ir.DataType.FLOAT}
    return x if is_float else ctx.as_type(x, ir.DataType.FLOAT)


def _as_float(x: Stored) -> Stored:
    """Return a stored array with 32 bits a number: what stores it in 16 is how, not what."""
    if x.array is None or x.array.dtype == np.float32:
        return x
    array = x.array.astype(np.float32)
    return Stored.constant(array) if x.key is None else Stored.parameter(x.key, array, array.shape, x.role)


@lite_operator("FAKE_QUANT")
def fake_quantised(ctx: LiteOperator) -> list[Item]:
    """To the nearest of 2^bits numbers between two limits."""
    names = {"min": "min", "max": "max"}
    attributes = {name: ctx.number(of, 0.0) for name, of in names.items()}
    more = {"num_bits": ctx.integer("num_bits", 8), "narrow_range": bool(ctx.setting("narrow_range", False))}
    return ctx.call("FakeQuantWithMinMaxArgs", attributes=attributes | more)


def type_name(ctx: LiteOperator, default: str = "DT_INT32") -> str:
    """Return the type of the operator's first output, as TensorFlow calls it."""
    kind = ctx.tensors.outputs[0].real_type if ctx.tensors.outputs else default
    return kind if kind in DTYPES else default
