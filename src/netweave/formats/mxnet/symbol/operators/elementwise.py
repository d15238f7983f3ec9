"""Operators that work element by element: on one tensor, on two, on a tensor and a number.

``elemwise_*`` and its aliases never broadcast, ``broadcast_*`` do as in NumPy. Comparisons and logic give
numbers of the input's type, where ONNX gives truth values (mshadow_op.h).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering.activations import FUNCTIONS, clip, hard_sigmoid
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.variables import onnx_dtype
from netweave.graph import DOMAIN, scale_gradients

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.formats.mxnet.symbol.context import MXNetOperator

    Unary = Callable[[MXNetOperator, ir.Value], ir.Value]
    Binary = Callable[[MXNetOperator, ir.Value, ir.Value], ir.Value]

UNARY = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "cos", "cosh", "erf", "exp",
    "expm1", "floor", "log", "log1p", "negative", "reciprocal", "relu", "rsqrt", "sigmoid", "sign", "sin",
    "sinh", "softsign", "sqrt", "square", "tan", "tanh",
)  # fmt: skip
"""Operators that compute the same in all frameworks."""

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

KINDS = (*BINARY, *COMPARISONS, "not_equal", *LOGIC, "mod", "hypot")
WORDS = {kind: kind for kind in KINDS} | {"add": "plus", "sub": "minus"}
"""What a kind is called in the names of operators that do not broadcast."""

ELEMWISE = (
    {f"_{word}": kind for kind, word in WORDS.items()}
    | {f"_{word.title()}": kind for kind, word in WORDS.items()}  # _Not_Equal, before 0.9
    | {f"elemwise_{kind}": kind for kind in ("add", "sub", "mul", "div")}
    | {"_add": "add", "_sub": "sub", "_grad_add": "add"}
)
"""Operators on two tensors of one shape, and what each computes."""

BROADCAST = {f"broadcast_{kind}": kind for kind in KINDS} | {
    "broadcast_plus": "add",
    "broadcast_minus": "sub",
}
"""Operators on two tensors whose shapes are made equal as in NumPy."""

SCALAR = (
    {f"_{kind}_scalar": kind for kind in KINDS}
    | {f"_{word}_scalar": kind for kind, word in WORDS.items()}
    | {f"_{word.title().replace('_', '')}Scalar": kind for kind, word in WORDS.items()}  # _NotEqualScalar
)
"""Operators on a tensor and the setting ``scalar``."""

REVERSED = {"rminus": "sub", "rdiv": "div", "rpower": "power", "rmod": "mod"}
SCALAR_FIRST = {f"_{name}_scalar": kind for name, kind in REVERSED.items()} | {
    f"_R{name[1:].title()}Scalar": kind for name, kind in REVERSED.items()
}
"""The same with the number on the left."""


@operator_reader("_copy", "identity", "_copyto", "_CrossDeviceCopy", "cast_storage")
def identity(ctx: MXNetOperator) -> ir.Value:
    """The input itself."""
    ctx.settings.ignore("stype")
    return ctx.add("Identity", [ctx.x])


@operator_reader("BlockGrad", "stop_gradient", "_contrib_gradientmultiplier")
def scaled_gradient(ctx: MXNetOperator) -> ir.Value:
    """The input itself, whose gradient is multiplied with a number, or with 0."""
    ctx.settings.ignore("is_int")
    y = ctx.add("Identity", [ctx.x])
    scale_gradients(y, {0: ctx.settings.number("scalar", 1.0) if "multiplier" in ctx.op else 0.0})
    return y


@operator_reader("make_loss", outputs=("loss",))
def make_loss(ctx: MXNetOperator) -> ir.Value:
    """The input itself as a loss: its gradient is 1, whatever is set."""
    ctx.settings.ignore("grad_scale", "valid_thresh", "normalization")
    return ctx.add("MakeLoss", [ctx.x], {"grad_scale": 1.0}, domain=DOMAIN)


@operator_reader("_identity_with_attr_like_rhs", arguments=("lhs", "rhs"))
def identity_like(ctx: MXNetOperator) -> ir.Value:
    """The first input itself; the second one only lends its shape to a gradient."""
    x, _ = ctx.inputs()
    return ctx.add("Identity", [x])


@operator_reader("Dropout")
def dropout(ctx: MXNetOperator) -> ir.Value:
    """Inverted dropout; nothing in test mode."""
    settings = ctx.settings
    always = settings.choice("mode", ("training", "always"), "training") == "always"
    if always or settings.integers("axes", ()) != ():
        raise ctx.unsupported("dropout in test mode, or with one mask for several elements, is not supported")
    x = ctx.x
    return ctx.add("Dropout", [x, ctx.scalar(settings.number("p", 0.5), x)])


@operator_reader(*UNARY)
def unary(ctx: MXNetOperator) -> ir.Value:
    """A function of each element."""
    return FUNCTIONS[ctx.op](ctx, ctx.x)


COMPOSED: dict[str, Unary] = {
    "degrees": lambda ctx, x: ctx.add("Mul", [x, ctx.scalar(180 / math.pi, x)]),
    "radians": lambda ctx, x: ctx.add("Mul", [x, ctx.scalar(math.pi / 180, x)]),
    "log2": lambda ctx, x: _logarithm(ctx, x, 2.0),
    "log10": lambda ctx, x: _logarithm(ctx, x, 10.0),
    "cbrt": lambda ctx, x: signed_cube_root(ctx, x),
    "rcbrt": lambda ctx, x: ctx.add("Reciprocal", [signed_cube_root(ctx, x)]),
    "fix": lambda ctx, x: _towards_zero(ctx, x, ctx.add("Abs", [x])),
    "trunc": lambda ctx, x: _towards_zero(ctx, x, ctx.add("Abs", [x])),
    # Halves go away from zero here, and to the even number in ONNX's Round.
    "round": lambda ctx, x: _towards_zero(ctx, x, ctx.add("Add", [ctx.add("Abs", [x]), ctx.scalar(0.5, x)])),
    # Halves go downwards here, and to the even number in ONNX's Round.
    "rint": lambda ctx, x: ctx.add("Ceil", [ctx.add("Sub", [x, ctx.scalar(0.5, x)])]),
    "logical_not": lambda ctx, x: _number(ctx, ctx.add("Equal", [x, ctx.scalar(0, x)]), like=x),
}
"""Functions that only MXNet has, or that it computes in a way of its own."""


@operator_reader(*COMPOSED)
def composed(ctx: MXNetOperator) -> ir.Value:
    """A function of each element, by several operators of ONNX."""
    return COMPOSED[ctx.op](ctx, ctx.x)


def _logarithm(ctx: MXNetOperator, x: ir.Value, base: float) -> ir.Value:
    return ctx.add("Div", [ctx.add("Log", [x]), ctx.scalar(math.log(base), x)])


def signed_cube_root(ctx: MXNetOperator, x: ir.Value) -> ir.Value:
    """Return the real cube root; ONNX's Pow has none of a negative number."""
    root = ctx.add("Pow", [ctx.add("Abs", [x]), ctx.scalar(1 / 3, x)])
    return ctx.add("Mul", [ctx.add("Sign", [x]), root])


def _towards_zero(ctx: MXNetOperator, x: ir.Value, size: ir.Value) -> ir.Value:
    return ctx.add("Mul", [ctx.add("Sign", [x]), ctx.add("Floor", [size])])


@operator_reader("hard_sigmoid")
def hard_sigmoid_reader(ctx: MXNetOperator) -> ir.Value:
    """``alpha * x + beta`` between 0 and 1."""
    slope, offset = ctx.settings.number("alpha", 0.2), ctx.settings.number("beta", 0.5)
    return hard_sigmoid(ctx, ctx.x, slope=slope, offset=offset)


@operator_reader("clip")
def clip_reader(ctx: MXNetOperator) -> ir.Value:
    """Between ``a_min`` and ``a_max``."""
    return clip(ctx, ctx.x, ctx.settings.number("a_min"), ctx.settings.number("a_max"))


@operator_reader("smooth_l1")
def smooth_l1(ctx: MXNetOperator) -> ir.Value:
    """``(s x)**2 / 2`` for ``abs(x) < 1 / s**2``, else ``abs(x) - 1 / (2 s**2)``."""
    x = ctx.x
    scalar = ctx.settings.number("scalar", 1.0)
    squared = scalar * scalar
    if not 0 < squared < math.inf:
        raise ctx.read_error(f"scalar={scalar}, expected a number whose square is above 0 and finite")
    ctx.settings.ignore("is_int")
    size = ctx.add("Abs", [x])
    parabola = ctx.add("Mul", [ctx.add("Mul", [x, x]), ctx.scalar(squared / 2, x)])
    line = ctx.add("Sub", [size, ctx.scalar(0.5 / squared, x)])
    return ctx.add("Where", [ctx.add("Less", [size, ctx.scalar(1 / squared, x)]), parabola, line])


@operator_reader("Cast", "cast", "amp_cast")
def cast(ctx: MXNetOperator) -> ir.Value:
    """To another element type."""
    return ctx.cast(ctx.x, onnx_dtype(ctx.settings.dtype("dtype")))


@operator_reader(*ELEMWISE, arguments=("lhs", "rhs"))
def elemwise(ctx: MXNetOperator) -> ir.Value:
    """Two tensors of one shape."""
    a, b = ctx.inputs()
    sizes_a, sizes_b = ctx.shape(a), ctx.shape(b)
    pairs = zip(sizes_a, sizes_b, strict=False)
    # a size that MXNet would infer is open, or is the 1 of a fill with such a size
    open_sizes = {None, 1} if ctx.has_open_fill else {None}
    if len(sizes_a) != len(sizes_b) or any(p != q and not open_sizes & {p, q} for p, q in pairs):
        raise ctx.shape_error(
            f"inputs of the shapes {a.shape} and {b.shape}, expected equal shapes: {ctx.op} does not "
            "broadcast"
        )
    return _binary(ctx, ELEMWISE[ctx.op], a, b)


@operator_reader(*BROADCAST, arguments=("lhs", "rhs"))
def broadcast(ctx: MXNetOperator) -> ir.Value:
    """Two tensors, broadcast."""
    a, b = ctx.inputs()
    return _binary(ctx, BROADCAST[ctx.op], a, b)


@operator_reader(*SCALAR)
def with_scalar(ctx: MXNetOperator) -> ir.Value:
    """A tensor and a number."""
    x = ctx.x
    ctx.settings.ignore("is_int")
    return _binary(ctx, SCALAR[ctx.op], x, ctx.scalar(ctx.settings.number("scalar", 1.0), x))


@operator_reader(*SCALAR_FIRST)
def with_scalar_first(ctx: MXNetOperator) -> ir.Value:
    """A number and a tensor."""
    x = ctx.x
    ctx.settings.ignore("is_int")
    return _binary(ctx, SCALAR_FIRST[ctx.op], ctx.scalar(ctx.settings.number("scalar", 1.0), x), x)


@operator_reader("add_n", "ElementWiseSum", arguments=None, counted=True)
def add_n(ctx: MXNetOperator) -> ir.Value:
    """The sum of all inputs."""
    ctx.settings.ignore("num_args")
    return ctx.add("Sum", ctx.inputs())


def _binary(ctx: MXNetOperator, kind: str, a: ir.Value, b: ir.Value) -> ir.Value:
    if kind in BINARY:
        return ctx.add(BINARY[kind], [a, b])
    if kind in COMPARISONS:
        return _number(ctx, ctx.add(COMPARISONS[kind], [a, b]), like=a)
    if kind == "not_equal":
        return _number(ctx, ctx.add("Not", [ctx.add("Equal", [a, b])]), like=a)
    if kind in LOGIC:
        truths = [ctx.cast(value, ir.DataType.BOOL) for value in (a, b)]
        return _number(ctx, ctx.add(LOGIC[kind], truths), like=a)
    if kind == "hypot":
        squares = ctx.add("Add", [ctx.add("Mul", [a, a]), ctx.add("Mul", [b, b])])
        return ctx.add("Sqrt", [squares])
    floors = ctx.add("Floor", [ctx.add("Div", [a, b])])  # mod has the sign of the divisor
    return ctx.add("Sub", [a, ctx.add("Mul", [floors, b])])


def _number(ctx: MXNetOperator, truth: ir.Value, *, like: ir.Value) -> ir.Value:
    return ctx.cast(truth, like.dtype or ir.DataType.FLOAT)
