"""Normalization and activations that formats share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import onnx_ir as ir

from netweave.graph import Statistics, set_statistics

if TYPE_CHECKING:
    from netweave.formats.lowering.context import LayerContext


def with_axes_swapped(
    ctx: LayerContext, x: ir.Value, first: int, second: int, compute: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Compute with two axes exchanged, and exchange them back in the result.

    Args:
        ctx: The layer.
        x: The value.
        first: An axis, counted from the front.
        second: The axis it changes places with; nothing is transposed if it is the same.
        compute: What to do; it keeps the sizes.
    """
    perm = list(range(ctx.rank(x)))
    perm[first], perm[second] = perm[second], perm[first]
    return ctx.transpose(compute(ctx.transpose(x, perm)), perm)


def batch_normalization(
    ctx: LayerContext,
    x: ir.Value,
    *,
    gamma: ir.Value | None,
    beta: ir.Value | None,
    mean: ir.Value,
    variance: ir.Value,
    epsilon: float,
    momentum: float | None = None,
    axis: int = 1,
    statistics: Statistics | None = None,
    training: bool = False,
    name: str = "",
) -> ir.Value:
    """Normalise by channel, with the statistics that are stored.

    Args:
        ctx: The layer.
        x: What is normalised.
        gamma: Scale of each channel; None for 1.
        beta: Shift of each channel; None for 0.
        mean: Stored means.
        variance: Stored variances.
        epsilon: Added to the variance.
        momentum: Share of the stored statistics that a step of training keeps.
        axis: The axis of the channels, counted from the front.
        statistics: How training changes the stored statistics, where that is not ONNX's rule.
        training: Whether the batch's own statistics are used.
        name: Name of the output.
    """
    channels = (gamma, beta, mean, variance)
    vectors = [
        vector if vector is not None else fixed_vector(ctx, mean, number)
        for vector, number in zip(channels, (1.0, 0.0, 0.0, 1.0), strict=True)
    ]
    attributes: Mapping[str, float | None] = {
        "epsilon": epsilon,
        "momentum": momentum,
        "training_mode": 1 if training else None,
    }

    def normalise(channels_second: ir.Value) -> ir.Value:
        outputs = ctx.builder.add_many(
            "BatchNormalization",
            [channels_second, *vectors],
            attributes,
            # ONNX has the new statistics as further outputs of a node in training mode.
            outputs=[name if axis == 1 else "", *([""] * 2 if training else [])],
        )
        if statistics is not None:
            set_statistics(outputs[0], statistics)
        return outputs[0]

    return normalise(x) if axis == 1 else with_axes_swapped(ctx, x, 1, axis, normalise)


def fixed_vector(ctx: LayerContext, like: ir.Value, number: float) -> ir.Value:
    """Return a constant vector of one number, of the size of another vector."""
    return ctx.constant(np.full(ctx.size(0, like), number, np.float32))


def layer_normalization(
    ctx: LayerContext,
    x: ir.Value,
    *,
    gamma: ir.Value,
    beta: ir.Value | None,
    epsilon: float,
    axis: int,
) -> ir.Value:
    """Normalise over one axis, with a scale and a shift for each of its elements.

    Args:
        ctx: The layer.
        x: What is normalised.
        gamma: Scales.
        beta: Shifts; None for 0.
        epsilon: Added to the variance.
        axis: The axis, counted from the front.
    """
    inputs = [gamma] if beta is None else [gamma, beta]
    attributes = {"axis": -1, "epsilon": epsilon}
    return with_axes_swapped(
        ctx,
        x,
        axis,
        ctx.rank(x) - 1,
        lambda last: ctx.add("LayerNormalization", [last, *inputs], attributes),
    )


# Frameworks write one name in several ways (``LeakyReLU``, ``leaky_relu``), and have several names for one
# function (``softrelu``, ``BNLL``, ``softplus``). A function that computes the same wherever its name
# occurs stands in a table here; one whose numbers differ (the slope of ``hard_sigmoid``, the approximation
# of ``gelu``) takes them as arguments, since there is no default that all frameworks share.


class NodeAdder(Protocol):
    """An object that adds nodes: a ``LayerContext``, or a recorder of a model's calls."""

    def add(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any] | None = None
    ) -> ir.Value:
        """Add a node with one output and return the output."""

    def scalar(self, number: float, like: ir.Value) -> ir.Value:
        """Add a constant number of the element type of another value."""


ElementwiseFunction = Callable[["NodeAdder", "ir.Value"], "ir.Value"]
"""Adds the nodes of a function and returns its result; it keeps the sizes."""

OPERATORS = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Identity", "IsInf", "IsNaN", "Log", "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round",
    "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh",
)  # fmt: skip
"""ONNX's operators on one tensor, with their default attributes."""

SYNONYMS = {
    "absolute": "Abs",
    "absval": "Abs",
    "arccos": "Acos",
    "arccosh": "Acosh",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "arctan": "Atan",
    "arctanh": "Atanh",
    "bnll": "Softplus",
    "exponential": "Exp",
    "inv": "Reciprocal",
    "linear": "Identity",
    "logicalnot": "Not",
    "logistic": "Sigmoid",
    "negative": "Neg",
    "softrelu": "Softplus",
}
"""Other names of these operators, without their underscores and in lower case."""

ONNX_NAMES = {op_type.lower(): op_type for op_type in OPERATORS} | SYNONYMS
"""ONNX's operator for each name that stands for one alone."""


def clip(ctx: NodeAdder, x: ir.Value, low: float | None, high: float | None) -> ir.Value:
    """Bound numbers below and above; None for no bound."""
    bounds = [None if bound is None else ctx.scalar(bound, x) for bound in (low, high)]
    return ctx.add("Clip", [x, *bounds] if high is not None else [x, bounds[0]])


def rectify(
    ctx: NodeAdder, x: ir.Value, *, slope: float = 0.0, limit: float | None = None, threshold: float = 0.0
) -> ir.Value:
    """Compute a ReLU: ``x`` from ``threshold`` on, ``slope * (x - threshold)`` below, at most ``limit``."""
    if threshold:
        return _rectify_above(ctx, x, slope, limit, threshold)
    if slope:
        leaky = ctx.add("LeakyRelu", [x], {"alpha": slope})
        return leaky if limit is None else ctx.add("Min", [leaky, ctx.scalar(limit, x)])
    return ctx.add("Relu", [x]) if limit is None else clip(ctx, x, 0.0, limit)


def _rectify_above(
    ctx: NodeAdder, x: ir.Value, slope: float, limit: float | None, threshold: float
) -> ir.Value:
    above = ctx.add("ThresholdedRelu", [x], {"alpha": threshold})
    if limit is not None:
        above = clip(ctx, above, 0.0, limit)
    if not slope:
        return above
    below = _with_number(ctx, "Min", _with_number(ctx, "Sub", x, threshold), 0.0)
    return ctx.add("Add", [above, _with_number(ctx, "Mul", below, slope)])


def swish(ctx: NodeAdder, x: ir.Value, beta: float | ir.Value = 1.0) -> ir.Value:
    """Compute ``x * sigmoid(beta * x)``; with beta 1 it is the SiLU."""
    if isinstance(beta, (int, float)):
        inner = x if beta == 1 else _with_number(ctx, "Mul", x, beta)
    else:
        inner = ctx.add("Mul", [x, beta])
    return ctx.add("Mul", [x, ctx.add("Sigmoid", [inner])])


def hard_sigmoid(ctx: NodeAdder, x: ir.Value, *, slope: float, offset: float = 0.5) -> ir.Value:
    """Compute ``slope * x + offset`` between 0 and 1: the slope is 0.2 or 1/6, by framework."""
    return ctx.add("HardSigmoid", [x], {"alpha": slope, "beta": offset})


def hard_swish(ctx: NodeAdder, x: ir.Value, *, slope: float) -> ir.Value:
    """Compute ``x * hard_sigmoid(x)``; only with slope 1/6 it is ONNX's HardSwish."""
    return ctx.add("Mul", [x, hard_sigmoid(ctx, x, slope=slope)])


def gelu(ctx: NodeAdder, x: ir.Value, *, approximate: bool) -> ir.Value:
    """Compute ``x * normal_cdf(x)``, by the error function or by the approximation with tanh."""
    return ctx.add("Gelu", [x], {"approximate": "tanh" if approximate else "none"})


def softplus(ctx: NodeAdder, x: ir.Value, beta: float = 1.0) -> ir.Value:
    """Compute ``log(1 + exp(beta * x)) / beta``."""
    if beta == 1:
        return ctx.add("Softplus", [x])
    return _with_number(ctx, "Div", ctx.add("Softplus", [_with_number(ctx, "Mul", x, beta)]), beta)


def _with_number(ctx: NodeAdder, op_type: str, x: ir.Value, number: float) -> ir.Value:
    return ctx.add(op_type, [x, ctx.scalar(number, x)])


def _shrink(bias: float) -> ElementwiseFunction:
    return lambda ctx, x: ctx.add("Shrink", [x], {"lambd": 0.5, "bias": bias})


EXPANSIONS: dict[str, ElementwiseFunction] = {
    "erfc": lambda ctx, x: _with_number(ctx, "Add", ctx.add("Neg", [ctx.add("Erf", [x])]), 1.0),
    "expm1": lambda ctx, x: _with_number(ctx, "Sub", ctx.add("Exp", [x]), 1.0),
    "hardshrink": _shrink(0.0),
    "hardtan": lambda ctx, x: clip(ctx, x, -1.0, 1.0),
    "hardtanh": lambda ctx, x: clip(ctx, x, -1.0, 1.0),
    "log1p": lambda ctx, x: ctx.add("Log", [_with_number(ctx, "Add", x, 1.0)]),
    "relu6": lambda ctx, x: rectify(ctx, x, limit=6.0),
    "rsqrt": lambda ctx, x: ctx.add("Reciprocal", [ctx.add("Sqrt", [x])]),
    "silu": swish,
    "softshrink": _shrink(0.5),
    "square": lambda ctx, x: ctx.add("Mul", [x, x]),
    "swish": swish,
    "tanhshrink": lambda ctx, x: ctx.add("Sub", [x, ctx.add("Tanh", [x])]),
}
"""Functions that ONNX has no operator for, or that it has in a later version than Netweave's."""


def _one_node(op_type: str, ctx: NodeAdder, x: ir.Value) -> ir.Value:
    return ctx.add(op_type, [x])


FUNCTIONS: dict[str, ElementwiseFunction] = {
    **{name: partial(_one_node, op_type) for name, op_type in ONNX_NAMES.items()},
    **EXPANSIONS,
}
"""Every function that computes the same in all frameworks, by its name in lower case, without underscores."""


def find_function(name: str) -> ElementwiseFunction | None:
    """Return a function by its name in any framework; None where Netweave does not know it.

    A name that means something else in one framework (MXNet's ``round`` takes halves away from zero) must
    not be asked for there.
    """
    return FUNCTIONS.get(name.replace("_", "").lower())


BINARY_OPERATORS = {
    "add": "Add",
    "addv2": "Add",
    "div": "Div",
    "divide": "Div",
    "equal": "Equal",
    "greater": "Greater",
    "greaterequal": "GreaterOrEqual",
    "less": "Less",
    "lessequal": "LessOrEqual",
    "logicaland": "And",
    "logicalor": "Or",
    "maximum": "Max",
    "minimum": "Min",
    "mul": "Mul",
    "multiply": "Mul",
    "notequal": "Equal",
    "pow": "Pow",
    "power": "Pow",
    "realdiv": "Div",
    "sub": "Sub",
    "subtract": "Sub",
    "truedivide": "Div",
    "truncatediv": "Div",
}
"""ONNX's operators on two tensors that are broadcast, by the names that frameworks give them in lower case.

ONNX rounds a division of integers to zero; what is not equal is the opposite of what is.
"""


def find_operator(name: str) -> str:
    """Return ONNX's operator on two tensors by its name in any framework."""
    return BINARY_OPERATORS[name.replace("_", "").lower()]
