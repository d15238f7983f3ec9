"""Operators on each element (tensorflow/core/ops/math_ops.cc)."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.attributes import DTYPES
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand
    from netweave.formats.tensorflow.call import Call

ONE = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Inv": "Reciprocal",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Log": "Log",
    "LogicalNot": "Not",
    "Neg": "Neg",
    "Reciprocal": "Reciprocal",
    "Rint": "Round",
    "Round": "Round",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Sqrt": "Sqrt",
    "Tan": "Tan",
}
"""Operators on one tensor, and ONNX's name; both round halves to even."""

TWO = {
    "Add": "Add",
    "AddV2": "Add",
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "LogicalAnd": "And",
    "LogicalOr": "Or",
    "Maximum": "Max",
    "Minimum": "Min",
    "Mul": "Mul",
    "Pow": "Pow",
    "RealDiv": "Div",
    "Sub": "Sub",
}
"""Operators on two tensors that are broadcast, and ONNX's name."""


@operator_reader(*ONE)
def one(call: Call) -> Tensor:
    """An operator on one tensor."""
    return unary(call.writer, ONE[call.op], call.operand())


@operator_reader(*TWO)
def two(call: Call) -> Tensor:
    """An operator on two tensors."""
    return broadcast(call.writer, TWO[call.op], _pair(call))


@operator_reader("Div", "TruncateDiv")
def div(call: Call) -> Tensor:
    """Of whole numbers rounded to zero."""
    return broadcast(call.writer, "Div", _pair(call))


@operator_reader("FloorDiv")
def floor_div(call: Call) -> Tensor:
    """Rounded down; ONNX rounds whole numbers to zero, so their rest is taken off first."""
    a, b = (_tensor(call, x) for x in _pair(call))
    if _is_real(a):
        return unary(call.writer, "Floor", broadcast(call.writer, "Div", [a, b]))
    exact = broadcast(call.writer, "Sub", [a, broadcast(call.writer, "Mod", [a, b])])
    return broadcast(call.writer, "Div", [exact, b])


@operator_reader("FloorMod")
def floor_mod(call: Call) -> Tensor:
    """The rest has the sign of the divisor."""
    a, b = _pair(call)
    if isinstance(a, Tensor) and not _is_real(a):
        return broadcast(call.writer, "Mod", [a, b])
    whole = unary(call.writer, "Floor", broadcast(call.writer, "Div", [a, b]))
    return broadcast(call.writer, "Sub", [a, broadcast(call.writer, "Mul", [whole, b])])


@operator_reader("Mod", "TruncateMod")
def truncate_mod(call: Call) -> Tensor:
    """The rest has the sign of what is divided."""
    return broadcast(call.writer, "Mod", _pair(call), {"fmod": 1})


@operator_reader("NotEqual")
def not_equal(call: Call) -> Tensor:
    """The opposite of Equal."""
    return unary(call.writer, "Not", broadcast(call.writer, "Equal", _pair(call)))


@operator_reader("SquaredDifference")
def squared_difference(call: Call) -> Tensor:
    """``(a - b) ** 2``."""
    difference = broadcast(call.writer, "Sub", _pair(call))
    return broadcast(call.writer, "Mul", [difference, difference])


@operator_reader("DivNoNan")
def div_no_nan(call: Call) -> Tensor:
    """0 where the divisor is 0."""
    a, b = _pair(call)
    quotient = broadcast(call.writer, "Div", [a, b])
    zero = Tensor(call.writer.number(0, quotient.value))
    return broadcast(call.writer, "Where", [broadcast(call.writer, "Equal", [b, zero]), zero, quotient])


@operator_reader("Square")
def square(call: Call) -> Tensor:
    """``x * x``."""
    x = call.operand()
    return broadcast(call.writer, "Mul", [x, x])


@operator_reader("Rsqrt")
def rsqrt(call: Call) -> Tensor:
    """``1 / sqrt(x)``."""
    return unary(call.writer, "Reciprocal", unary(call.writer, "Sqrt", call.operand()))


@operator_reader("Log1p")
def log1p(call: Call) -> Tensor:
    """``log(1 + x)``."""
    x = unary(call.writer, "Identity", call.operand())
    return unary(call.writer, "Log", _shifted(call, x, 1.0))


@operator_reader("Expm1")
def expm1(call: Call) -> Tensor:
    """``exp(x) - 1``."""
    return _shifted(call, unary(call.writer, "Exp", call.operand()), -1.0)


@operator_reader("Erfc")
def erfc(call: Call) -> Tensor:
    """``1 - erf(x)``."""
    return _shifted(call, unary(call.writer, "Neg", unary(call.writer, "Erf", call.operand())), 1.0)


@operator_reader("ZerosLike", "OnesLike")
def constant_like(call: Call) -> Tensor:
    """The same sizes, all 0 or all 1."""
    x = unary(call.writer, "Identity", call.operand())
    number = Tensor(call.writer.number(0, x.value))
    zeros = broadcast(call.writer, "Mul", [x, number])
    return zeros if call.op == "ZerosLike" else _shifted(call, zeros, 1.0)


@operator_reader("AddN", "AccumulateNV2")
def add_n(call: Call) -> Tensor:
    """The sum of all inputs."""
    return _tensor(call, reduce(lambda a, b: broadcast(call.writer, "Add", [a, b]), call.operands()))


@operator_reader("Select", "SelectV2")
def select(call: Call) -> Tensor:
    """``a`` where the condition holds, else ``b``; Select's condition may have one axis."""
    condition, a, b = call.operands()
    ranks = len(call.shape(condition)), len(call.shape(a))
    if call.op == "Select" and ranks[0] == 1 and ranks[1] > 1:
        column = [call.writer.source(condition), call.writer.integers([-1, *[1] * (ranks[1] - 1)])]
        condition = Tensor(call.writer.add("Reshape", column))
    return broadcast(call.writer, "Where", [condition, a, b])


@operator_reader("ClipByValue")
def clip_by_value(call: Call) -> Tensor:
    """Between two numbers."""
    limits = [call.writer.source(limit) for limit in call.operands(1, 3)]
    return unary(call.writer, "Clip", call.operand(), more=limits)


@operator_reader("Cast", "Bitcast")
def cast(call: Call) -> Operand:
    """Another element type; a stored array between real types stays as it is stored."""
    wanted = str(call.attribute("DstT", call.attribute("type", "")))
    if wanted not in DTYPES or (call.op == "Bitcast" and wanted != call.attribute("T")):
        raise call.refuse(f"to the type {wanted}: not read")
    x = call.operand()
    dtype = DTYPES[wanted]
    if isinstance(x, Stored) and x.array is not None and x.array.dtype == dtype:
        return x
    made = ir.DataType.from_numpy(dtype)
    if isinstance(x, Tensor) and x.value.dtype == made:
        return x
    return unary(call.writer, "Cast", x, {"to": int(made)})


@operator_reader("BiasAdd", "BiasAddV1")
def bias_add(call: Call) -> Tensor:
    """One number added per channel."""
    x, bias = call.operands()
    return biased(call, x, bias)


def biased(call: Call, x: Operand, bias: Operand) -> Tensor:
    """Return a tensor with one number added per channel."""
    if isinstance(bias, Stored):
        bias = Stored(bias.shape, bias.array, bias.key, "bias", bias.stored, bias.steps)
    rank = len(call.shape(x))
    if call.is_last() or rank == 2:
        return broadcast(call.writer, "Add", [x, bias])
    column = (call.shape(bias)[0] or -1, *[1] * (rank - 2))
    if isinstance(bias, Stored):
        return broadcast(call.writer, "Add", [x, bias.reshaped(column)])
    wide = call.writer.add("Reshape", [call.writer.source(bias), call.writer.integers(column)])
    return broadcast(call.writer, "Add", [x, Tensor(wide)])


def _pair(call: Call) -> list[Operand]:
    return call.operands(0, 2)


def _is_real(x: Tensor) -> bool:
    return x.value.dtype is None or x.value.dtype.is_floating_point()


def _shifted(call: Call, x: Tensor, number: float) -> Tensor:
    return broadcast(call.writer, "Add", [x, Tensor(call.writer.number(number, x.value))])


def _tensor(call: Call, x: Operand) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(call.writer.source(x))
