"""Operators on each element, activations, and numbers rounded as quantised ones would be."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.elementwise import clip, gelu, hard_sigmoid, swish
from netweave.formats.openvino.constants import DTYPES
from netweave.formats.openvino.context import OpenVINOOperation, constant_of, operator_reader
from netweave.graph.costs import num_elements

UNARY = {
    **{name: name for name in (
        "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Exp", "Floor",
        "IsInf", "IsNaN", "Log", "LogicalNot", "Mish", "Negative", "ReLU", "Sigmoid", "Sign", "Sin", "Sinh",
        "SoftPlus", "SoftSign", "Sqrt", "Tan", "Tanh",
    )},
    "Ceiling": "ceil",
    "Relu": "relu",
}  # fmt: skip
"""Operators on one tensor, and what other frameworks call them."""

BINARY = {
    "Add": np.add, "Divide": np.divide, "Multiply": np.multiply, "Subtract": np.subtract,
    **dict.fromkeys((
        "Equal", "Greater", "GreaterEqual", "Less", "LessEqual", "LogicalAnd", "LogicalOr", "LogicalXor",
        "Maximum", "Minimum", "Power",
    )),
}  # fmt: skip
"""Operators on two tensors, with NumPy's for those by which stored arrays are scaled and shifted."""

ONNX_BINARY = {
    "Add": "Add", "Divide": "Div", "Multiply": "Mul", "Subtract": "Sub", "Equal": "Equal",
    "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less", "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or", "LogicalXor": "Xor", "Maximum": "Max", "Minimum": "Min", "Power": "Pow",
}  # fmt: skip


@operator_reader(*UNARY)
def unary(ctx: OpenVINOOperation) -> Tensor:
    """An operator on one tensor."""
    return ctx.elementwise(UNARY[ctx.op], ctx.x)


@operator_reader(*BINARY)
def binary(ctx: OpenVINOOperation) -> Operand:
    """An operator on two tensors; weights that are stored as integers are scaled at once."""
    check_broadcast(ctx)
    operands = [ctx.operand(0), ctx.operand(1)]
    stored = _stored_result(ctx, operands)
    return stored if stored is not None else ctx.broadcast(ONNX_BINARY[ctx.op], operands)


def check_broadcast(ctx: OpenVINOOperation) -> None:
    """Refuse a way of broadcasting that is not NumPy's."""
    ctx.choice("auto_broadcast", ("numpy", "none"), "numpy")


def _stored_result(ctx: OpenVINOOperation, operands: list[Operand]) -> Stored | None:
    """Return what arithmetic makes of stored arrays alone; None where something is computed, or it grows."""
    function, arrays = BINARY[ctx.op], [constant_of(x) for x in operands]
    if function is None or any(array is None for array in arrays):
        return None
    numbers = [array for array in arrays if array is not None]
    try:
        count = num_elements(np.broadcast_shapes(*(array.shape for array in numbers)))
    except ValueError as error:
        raise ctx.shape_error(f"sizes {[array.shape for array in numbers]} cannot be broadcast") from error
    if count is None or count > max(array.size for array in numbers):
        return None
    whole = numbers[0].dtype.kind in "iu"
    with np.errstate(all="ignore"):
        result = np.asarray(function(*numbers)).astype(numbers[0].dtype, copy=False)
    return None if whole and ctx.op == "Divide" else renamed(operands, result)


def renamed(operands: list[Operand], array: np.ndarray) -> Stored:
    """Return an array under the name of the largest one that it was made of."""
    named = [x for x in operands if isinstance(x, Stored) and x.key is not None and x.array is not None]
    if not named:
        return Stored.constant(array)
    first = max(named, key=lambda x: 0 if x.array is None else x.array.size)
    return Stored.parameter(str(first.key), array, array.shape, first.role)


@operator_reader("NotEqual")
def not_equal(ctx: OpenVINOOperation) -> Tensor:
    """The opposite of Equal."""
    check_broadcast(ctx)
    return ctx.unary("Not", ctx.broadcast("Equal", [ctx.operand(0), ctx.operand(1)]))


@operator_reader("SquaredDifference")
def squared_difference(ctx: OpenVINOOperation) -> Tensor:
    """``(a - b) ** 2``."""
    check_broadcast(ctx)
    return ctx.elementwise("square", ctx.broadcast("Sub", [ctx.operand(0), ctx.operand(1)]))


@operator_reader("Mod", "FloorMod")
def modulo(ctx: OpenVINOOperation) -> Tensor:
    """The rest, with the sign of what is divided, or with that of the divisor."""
    check_broadcast(ctx)
    a, b = ctx.operand(0), ctx.operand(1)
    if ctx.op == "Mod":
        return ctx.broadcast("Mod", [a, b], {"fmod": 1})
    dtype = ctx.tensor(a).value.dtype
    if dtype is not None and dtype.is_integer():  # ONNX's own has the sign of the divisor for integers alone
        return ctx.broadcast("Mod", [a, b])
    quotient = ctx.unary("Floor", ctx.broadcast("Div", [a, b]))
    return ctx.broadcast("Sub", [a, ctx.broadcast("Mul", [quotient, b])])


@operator_reader("PRelu", "PReLU")
def prelu(ctx: OpenVINOOperation) -> Tensor:
    """A slope below 0: one, or one for each channel, which stand on axis 1."""
    slope = ctx.operand(1)
    if isinstance(slope, Stored) and len(slope.shape) == 1 < ctx.rank() and slope.shape[0] > 1:
        slope = slope.reshaped((*slope.shape, *[1] * (ctx.rank() - 2)))
    if isinstance(slope, Stored) and slope.shape in {(1,), ()}:
        number = float(np.reshape(ctx.known(1, "the slope"), -1)[0])
        return ctx.unary("LeakyRelu", ctx.x, {"alpha": number})
    return Tensor(ctx.add("PRelu", [ctx.x, ctx.in_layout(slope, role="slope")]))


@operator_reader("Clamp")
def clamp(ctx: OpenVINOOperation) -> Tensor:
    """Between two numbers."""
    low, high = ctx.number("min"), ctx.number("max")
    return ctx.elementwise(clip, ctx.x, low=low, high=high)


@operator_reader("Elu")
def elu(ctx: OpenVINOOperation) -> Tensor:
    """``alpha * (exp(x) - 1)`` below 0."""
    return ctx.unary("Elu", ctx.x, {"alpha": ctx.number("alpha", 1.0)})


@operator_reader("Selu")
def selu(ctx: OpenVINOOperation) -> Tensor:
    """A scaled Elu."""
    alpha, gamma = ctx.number_input(1, "alpha"), ctx.number_input(2, "lambda")
    return ctx.unary("Selu", ctx.x, {"alpha": alpha, "gamma": gamma})


@operator_reader("HardSigmoid")
def hard_sigmoid_by_inputs(ctx: OpenVINOOperation) -> Tensor:
    """``alpha * x + beta`` between 0 and 1."""
    slope, offset = ctx.number_input(1, "alpha"), ctx.number_input(2, "beta")
    return ctx.elementwise(hard_sigmoid, ctx.x, slope=slope, offset=offset)


@operator_reader("HSigmoid")
def hsigmoid(ctx: OpenVINOOperation) -> Tensor:
    """``relu6(x + 3) / 6``."""
    return ctx.elementwise(hard_sigmoid, ctx.x, slope=1 / 6)


@operator_reader("HSwish")
def hswish(ctx: OpenVINOOperation) -> Tensor:
    """``x * relu6(x + 3) / 6``."""
    return ctx.unary("HardSwish", ctx.x)


@operator_reader("Gelu")
def gaussian(ctx: OpenVINOOperation) -> Tensor:
    """``x * normal_cdf(x)``, or its approximation with tanh."""
    tanh = ctx.choice("approximation_mode", ("erf", "tanh"), "erf") == "tanh"
    return ctx.elementwise(gelu, ctx.x, approximate=tanh)


@operator_reader("Swish")
def swish_by_beta(ctx: OpenVINOOperation) -> Tensor:
    """``x * sigmoid(beta * x)``."""
    beta = 1.0 if ctx.optional(1) is None else ctx.number_input(1, "beta")
    return ctx.elementwise(swish, ctx.x, beta=beta)


@operator_reader("Round")
def round_(ctx: OpenVINOOperation) -> Tensor:
    """To the nearest integer; halves to even, or away from 0."""
    if ctx.choice("mode", ("half_to_even", "half_away_from_zero"), "half_to_even") == "half_to_even":
        return ctx.unary("Round", ctx.x)
    x = ctx.tensor(ctx.x)
    moved = ctx.broadcast("Add", [ctx.unary("Abs", x), ctx.scalar(0.5, x)])
    return ctx.broadcast("Mul", [ctx.unary("Sign", x), ctx.unary("Floor", moved)])


@operator_reader("Convert", "ConvertLike")
def convert(ctx: OpenVINOOperation) -> Operand:
    """Another element type; weights that are stored in 16 bits are read as what they are used as."""
    if ctx.op == "ConvertLike":
        like = ctx.tensor(ctx.operand(1)).value.dtype
        return ctx.as_type(ctx.x, like or ir.DataType.FLOAT)
    name = ctx.text("destination_type", "")
    if name not in DTYPES:
        raise ctx.unsupported(f"destination_type={name!r:.40} is not supported")
    dtype, array = DTYPES[name], constant_of(ctx.x)
    if array is not None and isinstance(ctx.x, Stored):
        with np.errstate(all="ignore"):
            return renamed([ctx.x], array.astype(dtype))
    return ctx.as_type(ctx.x, ir.DataType.from_numpy(dtype))


@operator_reader("Select")
def select(ctx: OpenVINOOperation) -> Tensor:
    """``a`` where the condition holds, else ``b``."""
    check_broadcast(ctx)
    return ctx.broadcast("Where", [ctx.operand(index) for index in range(3)])


@operator_reader("FakeQuantize")
def fake_quantised(ctx: OpenVINOOperation) -> Tensor:
    """To the nearest of ``levels`` numbers between two limits, which become two others.

    With 256 levels of which one is zero, these are the numbers that eight bits hold; OpenVINO makes
    it of QuantizeLinear and DequantizeLinear, and NNCF quantises so.
    """
    check_broadcast(ctx)
    levels = ctx.integer("levels")
    if levels < 2:
        raise ctx.read_error(f"levels={levels}, expected 2 or more")
    names = ("input_low", "input_high", "output_low", "output_high")
    limits = [ctx.known(index, name).astype(np.float64) for index, name in enumerate(names, start=1)]
    low, high, out_low, out_high = limits
    if not np.all(high > low):
        raise ctx.read_error("has an input_low that is not less than its input_high")
    x, steps = ctx.tensor(ctx.x), levels - 1
    if levels == 256 and np.array_equal(low, out_low) and np.array_equal(high, out_high):
        eight_bits = _eight_bits(ctx, x, *np.broadcast_arrays(low, high))
        if eight_bits is not None:
            return eight_bits
    kept = ctx.broadcast("Min", [ctx.broadcast("Max", [x, _float(low)]), _float(high)])
    scaled = ctx.broadcast("Mul", [ctx.broadcast("Sub", [kept, _float(low)]), _float(steps / (high - low))])
    rounded = ctx.broadcast("Mul", [ctx.unary("Round", scaled), _float((out_high - out_low) / steps)])
    return ctx.broadcast("Add", [rounded, _float(out_low)])


def _eight_bits(ctx: OpenVINOOperation, x: Tensor, low: np.ndarray, high: np.ndarray) -> Tensor | None:
    """Return a tensor quantised to uint8 and back; None where zero is none of the numbers left."""
    scale = (high - low) / 255
    zero = np.round(-low / scale)
    axes = [axis for axis, size in enumerate(low.shape, start=ctx.rank(x) - low.ndim) if size > 1]
    if (
        len(axes) > 1
        or np.any(np.abs(low / scale + zero) > ZERO_IS_LEVEL)
        or np.any((zero < 0) | (zero > 255))
    ):
        return None
    shape = (-1,) if axes else ()
    stored = [
        ctx.constant(scale.reshape(shape), dtype=np.float32),
        ctx.constant(zero.reshape(shape), dtype=np.uint8),
    ]
    settings = {"axis": axes[0]} if axes else {}
    integers = ctx.unary("QuantizeLinear", x, settings, stored)
    return ctx.unary("DequantizeLinear", integers, settings, stored)


ZERO_IS_LEVEL = 1e-3
"""Share of a step by which a level may miss zero: limits are rounded to float32."""


def _float(array: np.ndarray) -> Stored:
    return Stored.constant(np.asarray(array, np.float32))
