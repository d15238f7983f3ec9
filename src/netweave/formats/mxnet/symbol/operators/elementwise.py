"""Elementwise operators and reductions of MXNet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering.elementwise import FUNCTIONS, clip, gelu, hard_sigmoid
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.settings import Settings
from netweave.formats.mxnet.symbol.variables import onnx_dtype
from netweave.graph import DOMAIN, scale_gradients, set_ties

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator


# ``elemwise_*`` and its aliases never broadcast, ``broadcast_*`` do as in NumPy. Comparisons and logic give
# numbers of the input's type, where ONNX gives truth values (mshadow_op.h).

Unary = Callable[["MXNetOperator", ir.Value], ir.Value]
Binary = Callable[["MXNetOperator", ir.Value, ir.Value], ir.Value]

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
        made = ctx.add(BINARY[kind], [a, b])
        return set_ties(made, "first") if kind in {"maximum", "minimum"} else made
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


ACTIVATIONS = ("relu", "sigmoid", "tanh", "softrelu", "softsign")
LEAKY = ("leaky", "elu", "prelu", "rrelu", "selu", "gelu")


@operator_reader("Activation")
def activation(ctx: MXNetOperator) -> ir.Value:
    """One of the words of ``ACTIVATIONS``."""
    return FUNCTIONS[ctx.settings.choice("act_type", ACTIVATIONS, unread=("log_sigmoid", "mish"))](ctx, ctx.x)


def _leaky_arguments(settings: Settings) -> Sequence[str]:
    return ("data", "gamma") if settings.choice("act_type", LEAKY, "leaky") == "prelu" else ("data",)


@operator_reader("LeakyReLU", arguments=_leaky_arguments)
def leaky_relu(ctx: MXNetOperator) -> ir.Value:
    """One of the words of ``LEAKY``; rrelu in test mode has the mean of its bounds as slope."""
    settings = ctx.settings
    kind = settings.choice("act_type", LEAKY, "leaky")
    slope = settings.number("slope", 0.25)
    lower, upper = settings.number("lower_bound", 0.125), settings.number("upper_bound", 0.334)
    x = ctx.x
    if kind == "prelu":
        return ctx.add("PRelu", [x, _slopes(ctx, x)])
    if kind == "gelu":
        return gelu(ctx, x, approximate=False)
    if kind == "selu":
        return ctx.add("Selu", [x])
    if kind == "elu":
        return ctx.add("Elu", [x], {"alpha": slope})
    return ctx.add("LeakyRelu", [x], {"alpha": slope if kind == "leaky" else (lower + upper) / 2})


def _slopes(ctx: MXNetOperator, x: ir.Value) -> ir.Value:
    """Return one slope per channel, shaped to broadcast, or the one slope for all."""
    stored = ctx.stored_shape("gamma") or ctx.known_sizes("gamma")
    if stored == (1,):
        return ctx.parameter("gamma", (1,), role="slope")
    channels, rank = ctx.open_size(1, x), ctx.rank(x)
    if channels is None and stored:
        channels = stored[0]
    if channels is None or rank == 2:
        return ctx.parameter("gamma", (channels,), role="slope")
    layout = [("reshape", (channels, *[1] * (rank - 2)))]
    return ctx.parameter("gamma", (channels,), role="slope", layout=layout)


@operator_reader("SoftmaxActivation")
def softmax_activation(ctx: MXNetOperator) -> ir.Value:
    """Softmax over axis 1 (``channel``) or over the last axis (``instance``)."""
    mode = ctx.settings.choice("mode", ("instance", "channel"), "instance")
    return ctx.add("Softmax", [ctx.x], {"axis": 1 if mode == "channel" else -1})


@operator_reader("softmax", "log_softmax", "softmin")
def softmax(ctx: MXNetOperator) -> ir.Value:
    """Softmax or its logarithm along ``axis``, of the input divided by ``temperature``."""
    settings = ctx.settings
    axis, temperature = settings.integer("axis", -1), settings.number("temperature", 1.0)
    settings.ignore("dtype")
    if settings.flag("use_length", False):
        raise ctx.unsupported("use_length=True is not supported")
    x = ctx.x
    if ctx.op == "softmin":
        x = ctx.add("Neg", [x])
    if temperature != 1.0:
        x = ctx.add("Div", [x, ctx.scalar(temperature, x)])
    return ctx.add("LogSoftmax" if ctx.op == "log_softmax" else "Softmax", [x], {"axis": axis})


REDUCTIONS = {
    "_square_sum": "ReduceSumSquare",
    "sum": "ReduceSum",
    "sum_axis": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "max_axis": "ReduceMax",
    "min": "ReduceMin",
    "min_axis": "ReduceMin",
    "prod": "ReduceProd",
}
WANTED = ("indices", "value", "both", "mask")
NORMS = {1: "ReduceL1", 2: "ReduceL2"}


@operator_reader(*REDUCTIONS)
def reduce(ctx: MXNetOperator) -> ir.Value:
    """Over ``axis``, over all others with ``exclude``, or over all."""
    return _reduced(ctx, REDUCTIONS[ctx.op])


@operator_reader("nansum", "nanprod")
def reduce_numbers(ctx: MXNetOperator) -> ir.Value:
    """The sum or the product of the elements that are not NaN."""
    rest = ctx.scalar(0.0 if ctx.op == "nansum" else 1.0, ctx.x)
    numbers = ctx.add("Where", [ctx.add("IsNaN", [ctx.x]), rest, ctx.x])
    return _reduced(ctx, "ReduceSum" if ctx.op == "nansum" else "ReduceProd", numbers)


@operator_reader("norm")
def norm(ctx: MXNetOperator) -> ir.Value:
    """Sum of absolute values, or root of the sum of squares."""
    order = ctx.settings.integer("ord", 2)
    if order not in NORMS:
        raise ctx.read_error(f"ord={order}, expected 1 or 2")
    ctx.settings.ignore("out_dtype")
    return _reduced(ctx, NORMS[order])


def _reduced(ctx: MXNetOperator, op_type: str, x: ir.Value | None = None) -> ir.Value:
    settings = ctx.settings
    rank = ctx.rank()
    axes = [ctx.axis(axis) for axis in settings.integers("axis", ())] or list(range(rank))
    if settings.flag("exclude", False):
        axes = [axis for axis in range(rank) if axis not in axes]
    keepdims = int(settings.flag("keepdims", False))
    x = ctx.x if x is None else x
    made = ctx.add(op_type, [x, ctx.integers(axes)], {"keepdims": keepdims})
    if op_type in {"ReduceMax", "ReduceMin"}:
        set_ties(made, "all")
    return _at_least_one_axis(ctx, made)


@operator_reader("argmax", "argmin")
def arg(ctx: MXNetOperator) -> ir.Value:
    """Place of the largest or smallest element, as a number of the input's type."""
    axis = ctx.settings.integer("axis", None)
    keep = ctx.settings.flag("keepdims", False)
    x = ctx.x
    if axis is None:
        x, axis = ctx.reshape(x, [-1]), 0
    axis = ctx.axis(axis, ctx.rank(x))
    op_type = "ArgMax" if ctx.op == "argmax" else "ArgMin"
    places = ctx.add(op_type, [x], {"axis": axis, "keepdims": int(keep)})
    return _at_least_one_axis(ctx, ctx.cast(places, ir.DataType.FLOAT))


@operator_reader("argmax_channel")
def argmax_channel(ctx: MXNetOperator) -> ir.Value:
    """Place of the largest element along axis 1."""
    return ctx.cast(ctx.add("ArgMax", [ctx.x], {"axis": 1, "keepdims": 0}), ir.DataType.FLOAT)


def _topk_outputs(settings: Settings) -> int:
    return 2 if settings.choice("ret_typ", WANTED, "indices") == "both" else 1


@operator_reader("topk", count=_topk_outputs)
def topk(ctx: MXNetOperator) -> ir.Value | tuple[ir.Value, ...]:
    """The ``k`` largest (or smallest) elements along an axis, their places, both, or ones in these places."""
    settings = ctx.settings
    wanted = settings.choice("ret_typ", WANTED, "indices")
    values, places = _sorted(ctx, settings.integer("k", 1), ascending=settings.flag("is_ascend", False))
    if wanted == "mask":
        return _mask(ctx, places)
    if wanted == "both":
        return values, places
    return places if wanted == "indices" else values


def _mask(ctx: MXNetOperator, places: ir.Value) -> ir.Value:
    """Return ones in some places along an axis, zeros elsewhere."""
    x, axis = _along(ctx)
    shape = ctx.add("Shape", [x])
    zeros = ctx.add("Expand", [ctx.scalar(0.0, x), shape])
    places = ctx.cast(places, ir.DataType.INT64)
    ones = ctx.add("Expand", [ctx.scalar(1.0, x), ctx.add("Shape", [places])])
    mask = ctx.add("ScatterElements", [zeros, places, ones], {"axis": axis})
    return mask if x is ctx.x else ctx.add("Reshape", [mask, ctx.add("Shape", [ctx.x])])


def _along(ctx: MXNetOperator) -> tuple[ir.Value, int]:
    """Return the input and the axis to sort along; flat where ``axis`` is None."""
    x = ctx.x
    if ctx.settings.texts().get("axis") == "None":  # of other settings None is the default
        ctx.settings.ignore("axis")
        return ctx.add("Reshape", [x, ctx.integers([-1])]), 0
    return x, ctx.axis(ctx.settings.integer("axis", -1))


@operator_reader("sort", "argsort")
def sort(ctx: MXNetOperator) -> ir.Value:
    """Elements in order along an axis, or their places."""
    values, places = _sorted(ctx, 0, ascending=ctx.settings.flag("is_ascend", True))
    return values if ctx.op == "sort" else places


def _sorted(ctx: MXNetOperator, k: int, *, ascending: bool) -> tuple[ir.Value, ir.Value]:
    settings = ctx.settings
    x, axis = _along(ctx)
    count = ctx.integers([k]) if k > 0 else ctx.add("Shape", [x], {"start": axis, "end": axis + 1})
    attributes = {"axis": axis, "largest": int(not ascending)}
    values, places = ctx.add_many("TopK", [x, count], attributes, outputs=2)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    return values, ctx.cast(places, dtype)


@operator_reader("dot", arguments=("lhs", "rhs"))
def dot(ctx: MXNetOperator) -> ir.Value:
    """Last axis of the first input against the first axis of the second."""
    ctx.settings.ignore("forward_stype")
    a, b = ctx.input("lhs"), ctx.input("rhs")
    ranks = ctx.rank(a), ctx.rank(b)
    letters = "abcdefgh"
    first, second = letters[: ranks[0]], letters[ranks[0] : sum(ranks)]
    joined_a = 0 if ctx.settings.flag("transpose_a", False) else ranks[0] - 1
    joined_b = ranks[1] - 1 if ctx.settings.flag("transpose_b", False) else 0
    if ranks == (2, 2):
        sides = [_turned(ctx, a, joined_a == 0), _turned(ctx, b, joined_b == 1)]
        return ctx.add("MatMul", sides)
    second = second.replace(second[joined_b], first[joined_a])
    rest = (first + second).replace(first[joined_a], "")
    product = ctx.add("Einsum", [a, b], {"equation": f"{first},{second}->{rest}"})
    return _at_least_one_axis(ctx, product)


@operator_reader("batch_dot", arguments=("lhs", "rhs"))
def batch_dot(ctx: MXNetOperator) -> ir.Value:
    """A product of matrices for each element of the batch."""
    ctx.settings.ignore("forward_stype")
    a = _turned(ctx, ctx.input("lhs"), ctx.settings.flag("transpose_a", False))
    b = _turned(ctx, ctx.input("rhs"), ctx.settings.flag("transpose_b", False))
    return ctx.add("MatMul", [a, b])


@operator_reader("_linalg_gemm2", "linalg_gemm2", arguments=("A", "B"))
def gemm2(ctx: MXNetOperator) -> ir.Value:
    """``alpha`` times a product of matrices."""
    settings = ctx.settings
    if settings.integer("axis", -2) != -2:
        raise ctx.unsupported("an axis other than -2 is not supported")
    a = _turned(ctx, ctx.input("A"), settings.flag("transpose_a", False))
    b = _turned(ctx, ctx.input("B"), settings.flag("transpose_b", False))
    product = ctx.add("MatMul", [a, b])
    alpha = settings.number("alpha", 1.0)
    return product if alpha == 1.0 else ctx.add("Mul", [product, ctx.scalar(alpha, product)])


def _turned(ctx: MXNetOperator, x: ir.Value, wanted: bool) -> ir.Value:
    if not wanted:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _at_least_one_axis(ctx: MXNetOperator, x: ir.Value) -> ir.Value:
    """MXNet's numbers are tensors of the shape (1,)."""
    return x if ctx.shape(x) else ctx.reshape(x, [1])
