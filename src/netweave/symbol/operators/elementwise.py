"""Operators that work element by element: on one tensor, on two, on a tensor and a number.

``elemwise_*`` and its aliases never broadcast, ``broadcast_*`` do as in NumPy. Comparisons and logic give
numbers of the input's type, where ONNX gives truth values (mshadow_op.h).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph import DOMAIN, scale_gradients
from netweave.symbol.registry import operator_reader
from netweave.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.symbol.call import Call

    Unary = Callable[[Call, ir.Value], ir.Value]
    Binary = Callable[[Call, ir.Value, ir.Value], ir.Value]

UNARY = {
    "abs": "Abs",
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "ceil": "Ceil",
    "cos": "Cos",
    "cosh": "Cosh",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "log": "Log",
    "negative": "Neg",
    "reciprocal": "Reciprocal",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "sign": "Sign",
    "sin": "Sin",
    "sinh": "Sinh",
    "softsign": "Softsign",
    "sqrt": "Sqrt",
    "tan": "Tan",
    "tanh": "Tanh",
}
"""Operators that ONNX has under another name."""

FACTORS = {"degrees": 180 / math.pi, "radians": math.pi / 180}
LOG_BASES = {"log2": 2.0, "log10": 10.0}

BINARY = {
    "add": "Add",
    "sub": "Sub",
    "mul": "Mul",
    "div": "Div",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
}
COMPARISONS = {
    "equal": "Equal",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "lesser": "Less",
    "lesser_equal": "LessOrEqual",
}
LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}

ELEMWISE = {
    "elemwise_add": "add",
    "_plus": "add",
    "_Plus": "add",
    "_add": "add",
    "_grad_add": "add",
    "elemwise_sub": "sub",
    "_minus": "sub",
    "_Minus": "sub",
    "_sub": "sub",
    "elemwise_mul": "mul",
    "_mul": "mul",
    "_Mul": "mul",
    "elemwise_div": "div",
    "_div": "div",
    "_Div": "div",
    "_mod": "mod",
    "_Mod": "mod",
    "_power": "power",
    "_Power": "power",
    "_maximum": "maximum",
    "_Maximum": "maximum",
    "_minimum": "minimum",
    "_Minimum": "minimum",
    "_hypot": "hypot",
    "_Hypot": "hypot",
    "_equal": "equal",
    "_Equal": "equal",
    "_not_equal": "not_equal",
    "_Not_Equal": "not_equal",
    "_greater": "greater",
    "_Greater": "greater",
    "_greater_equal": "greater_equal",
    "_Greater_Equal": "greater_equal",
    "_lesser": "lesser",
    "_Lesser": "lesser",
    "_lesser_equal": "lesser_equal",
    "_Lesser_Equal": "lesser_equal",
    "_logical_and": "logical_and",
    "_Logical_And": "logical_and",
    "_logical_or": "logical_or",
    "_Logical_Or": "logical_or",
    "_logical_xor": "logical_xor",
    "_Logical_Xor": "logical_xor",
}
"""Operators on two tensors of one shape, and what each computes."""

KINDS = (*BINARY, *COMPARISONS, "not_equal", *LOGIC, "mod", "hypot")
BROADCAST = {f"broadcast_{kind}": kind for kind in KINDS} | {
    "broadcast_plus": "add",
    "broadcast_minus": "sub",
}
"""Operators on two tensors whose shapes are made equal as in NumPy."""

REVERSED = {"rminus": "sub", "rdiv": "div", "rpower": "power", "rmod": "mod"}
SCALAR = {f"_{kind}_scalar": kind for kind in KINDS} | {
    "_plus_scalar": "add",
    "_minus_scalar": "sub",
    "_PlusScalar": "add",
    "_MinusScalar": "sub",
    "_MulScalar": "mul",
    "_DivScalar": "div",
    "_ModScalar": "mod",
    "_PowerScalar": "power",
    "_MaximumScalar": "maximum",
    "_MinimumScalar": "minimum",
    "_HypotScalar": "hypot",
    "_EqualScalar": "equal",
    "_NotEqualScalar": "not_equal",
    "_GreaterScalar": "greater",
    "_GreaterEqualScalar": "greater_equal",
    "_LesserScalar": "lesser",
    "_LesserEqualScalar": "lesser_equal",
    "_LogicalAndScalar": "logical_and",
    "_LogicalOrScalar": "logical_or",
    "_LogicalXorScalar": "logical_xor",
}
"""Operators on a tensor and the setting ``scalar``."""

SCALAR_FIRST = {f"_{name}_scalar": kind for name, kind in REVERSED.items()} | {
    "_RMinusScalar": "sub",
    "_RDivScalar": "div",
    "_RPowerScalar": "power",
    "_RModScalar": "mod",
}
"""The same with the number on the left."""


@operator_reader("_copy", "identity", "_copyto", "_CrossDeviceCopy", "cast_storage")
def identity(call: Call) -> ir.Value:
    """The input itself."""
    call.settings.skip("stype")
    return call.add("Identity", [call.value()])


@operator_reader("BlockGrad", "stop_gradient", "_contrib_gradientmultiplier")
def scaled_gradient(call: Call) -> ir.Value:
    """The input itself, whose gradient is multiplied with a number, or with 0."""
    call.settings.skip("is_int")
    made = call.add("Identity", [call.value()])
    scale_gradients(made, {0: call.settings.number("scalar", 1.0) if "multiplier" in call.op else 0.0})
    return made


@operator_reader("make_loss", outputs=("loss",))
def make_loss(call: Call) -> ir.Value:
    """The input itself as a loss: its gradient is 1, whatever is set."""
    call.settings.skip("grad_scale", "valid_thresh", "normalization")
    return call.add("MakeLoss", [call.value()], {"grad_scale": 1.0}, domain=DOMAIN)


@operator_reader("_identity_with_attr_like_rhs", arguments=("lhs", "rhs"))
def identity_like(call: Call) -> ir.Value:
    """The first input itself; the second one only lends its shape to a gradient."""
    x, _ = call.values()
    return call.add("Identity", [x])


@operator_reader("Dropout")
def dropout(call: Call) -> ir.Value:
    """Inverted dropout; nothing in test mode."""
    settings = call.settings
    always = settings.choice("mode", ("training", "always"), "training") == "always"
    if always or settings.sizes("axes", ()) != ():
        raise call.refuse("dropout in test mode too, or one mask for several elements, is not read")
    x = call.value()
    return call.add("Dropout", [x, call.scalar(settings.number("p", 0.5), x)])


@operator_reader(*UNARY)
def unary(call: Call) -> ir.Value:
    """One operator of ONNX."""
    return call.add(UNARY[call.op], [call.value()])


@operator_reader(*FACTORS)
def times_constant(call: Call) -> ir.Value:
    """Degrees from radians, or the reverse."""
    x = call.value()
    return call.add("Mul", [x, call.scalar(FACTORS[call.op], x)])


@operator_reader(*LOG_BASES)
def logarithm(call: Call) -> ir.Value:
    """Logarithm to another base."""
    x = call.value()
    return call.add("Div", [call.add("Log", [x]), call.scalar(math.log(LOG_BASES[call.op]), x)])


@operator_reader("log1p")
def log1p(call: Call) -> ir.Value:
    """``log(1 + x)``."""
    x = call.value()
    return call.add("Log", [call.add("Add", [x, call.scalar(1, x)])])


@operator_reader("expm1")
def expm1(call: Call) -> ir.Value:
    """``exp(x) - 1``."""
    x = call.value()
    return call.add("Sub", [call.add("Exp", [x]), call.scalar(1, x)])


@operator_reader("square")
def square(call: Call) -> ir.Value:
    """``x * x``."""
    x = call.value()
    return call.add("Mul", [x, x])


@operator_reader("rsqrt")
def rsqrt(call: Call) -> ir.Value:
    """``1 / sqrt(x)``."""
    return call.add("Reciprocal", [call.add("Sqrt", [call.value()])])


@operator_reader("cbrt", "rcbrt")
def cube_root(call: Call) -> ir.Value:
    """The real cube root, or one over it."""
    x = call.value()
    root = call.add("Pow", [call.add("Abs", [x]), call.scalar(1 / 3, x)])
    signed = call.add("Mul", [call.add("Sign", [x]), root])
    return signed if call.op == "cbrt" else call.add("Reciprocal", [signed])


@operator_reader("fix", "trunc", "round")
def towards_zero(call: Call) -> ir.Value:
    """Without the fraction; ``round`` first goes half a step away from zero."""
    x = call.value()
    size = call.add("Abs", [x])
    if call.op == "round":
        size = call.add("Add", [size, call.scalar(0.5, x)])
    return call.add("Mul", [call.add("Sign", [x]), call.add("Floor", [size])])


@operator_reader("rint")
def rint(call: Call) -> ir.Value:
    """To the nearest whole number, halves downwards (ONNX: to the even one)."""
    x = call.value()
    return call.add("Ceil", [call.add("Sub", [x, call.scalar(0.5, x)])])


@operator_reader("logical_not")
def logical_not(call: Call) -> ir.Value:
    """1 where the input is 0."""
    x = call.value()
    return _number(call, call.add("Equal", [x, call.scalar(0, x)]), like=x)


@operator_reader("hard_sigmoid")
def hard_sigmoid(call: Call) -> ir.Value:
    """``alpha * x + beta`` between 0 and 1."""
    attributes = {"alpha": call.settings.number("alpha", 0.2), "beta": call.settings.number("beta", 0.5)}
    return call.add("HardSigmoid", [call.value()], attributes)


@operator_reader("clip")
def clip(call: Call) -> ir.Value:
    """Between ``a_min`` and ``a_max``."""
    x = call.value()
    limits = [call.scalar(call.settings.number(name), x) for name in ("a_min", "a_max")]
    return call.add("Clip", [x, *limits])


@operator_reader("smooth_l1")
def smooth_l1(call: Call) -> ir.Value:
    """``(s x)**2 / 2`` for ``abs(x) < 1 / s**2``, else ``abs(x) - 1 / (2 s**2)``."""
    x = call.value()
    scalar = call.settings.number("scalar", 1.0)
    squared = scalar * scalar
    if not 0 < squared < math.inf:
        raise call.wrong(f"its scalar is {scalar}")
    call.settings.skip("is_int")
    size = call.add("Abs", [x])
    parabola = call.add("Mul", [call.add("Mul", [x, x]), call.scalar(squared / 2, x)])
    line = call.add("Sub", [size, call.scalar(0.5 / squared, x)])
    return call.add("Where", [call.add("Less", [size, call.scalar(1 / squared, x)]), parabola, line])


@operator_reader("Cast", "cast", "amp_cast")
def cast(call: Call) -> ir.Value:
    """To another element type."""
    return call.add("Cast", [call.value()], {"to": onnx_dtype(call.settings.dtype("dtype"))})


@operator_reader(*ELEMWISE, arguments=("lhs", "rhs"))
def elemwise(call: Call) -> ir.Value:
    """Two tensors of one shape."""
    a, b = call.values()
    sizes_a, sizes_b = call.shape(a), call.shape(b)
    pairs = zip(sizes_a, sizes_b, strict=False)
    if len(sizes_a) != len(sizes_b) or any(p != q and None not in {p, q} for p, q in pairs):
        raise call.wrong(f"inputs of the shapes {a.shape} and {b.shape}; {call.op} never broadcasts")
    return _binary(call, ELEMWISE[call.op], a, b)


@operator_reader(*BROADCAST, arguments=("lhs", "rhs"))
def broadcast(call: Call) -> ir.Value:
    """Two tensors, broadcast."""
    a, b = call.values()
    return _binary(call, BROADCAST[call.op], a, b)


@operator_reader(*SCALAR)
def with_scalar(call: Call) -> ir.Value:
    """A tensor and a number."""
    x = call.value()
    call.settings.skip("is_int")
    return _binary(call, SCALAR[call.op], x, call.scalar(call.settings.number("scalar", 1.0), x))


@operator_reader(*SCALAR_FIRST)
def with_scalar_first(call: Call) -> ir.Value:
    """A number and a tensor."""
    x = call.value()
    call.settings.skip("is_int")
    return _binary(call, SCALAR_FIRST[call.op], call.scalar(call.settings.number("scalar", 1.0), x), x)


@operator_reader("add_n", "ElementWiseSum", arguments=None, counted=True)
def add_n(call: Call) -> ir.Value:
    """The sum of all inputs."""
    call.settings.skip("num_args")
    return call.add("Sum", call.values())


def _binary(call: Call, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    if kind in BINARY:
        return call.add(BINARY[kind], [a, b])
    if kind in COMPARISONS:
        return _number(call, call.add(COMPARISONS[kind], [a, b]), like=a)
    if kind == "not_equal":
        return _number(call, call.add("Not", [call.add("Equal", [a, b])]), like=a)
    if kind in LOGIC:
        truths = [call.add("Cast", [value], {"to": ir.DataType.BOOL}) for value in (a, b)]
        return _number(call, call.add(LOGIC[kind], truths), like=a)
    if kind == "hypot":
        squares = call.add("Add", [call.add("Mul", [a, a]), call.add("Mul", [b, b])])
        return call.add("Sqrt", [squares])
    floors = call.add("Floor", [call.add("Div", [a, b])])  # mod has the sign of the divisor
    return call.add("Sub", [a, call.add("Mul", [floors, b])])


def _number(call: Call, truth: ir.Value, *, like: ir.Value) -> ir.Value:
    return call.add("Cast", [truth], {"to": like.dtype or ir.DataType.FLOAT})
