"""Elementwise layers of Keras, and the functions of ``keras.ops`` that stand between layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader, read_layer
from netweave.formats.lowering import elementwise
from netweave.formats.lowering.channels_last import Operand, Tensor
from netweave.formats.lowering.channels_last.layer import along, cut, reduce, split
from netweave.formats.lowering.elementwise import gelu, hard_sigmoid, hard_swish, rectify

LIKE_EVERYWHERE = frozenset(
    {
        "celu", "elu", "exponential", "hard_shrink", "hard_tanh", "mish", "relu", "relu6", "selu", "silu",
        "soft_shrink", "softplus", "softsign", "swish", "tanh", "tanh_shrink",
    }
)  # fmt: skip
"""Activations that are what other frameworks call so too."""


def activate(ctx: KerasLayer, x: Tensor, name: str) -> Tensor:
    """Return what a setting of the layer, a name or a layer as written, makes of a tensor."""
    value = ctx.setting(name)
    if value is None:
        return x
    if isinstance(value, Mapping):
        if isinstance(value.get("config"), Mapping):
            return _inner_layer(ctx, x, name)
        value = value.get("config")
    return apply(ctx, x, str(value))


def apply(ctx: KerasLayer, x: Tensor, name: str) -> Tensor:
    """Return what an activation makes of a tensor.

    Raises:
        UnsupportedError: Netweave does not know it.
    """
    if name == "linear":
        return x
    if name in {"sigmoid", "softmax"}:
        made = ctx.unary("Sigmoid", x) if name == "sigmoid" else along(ctx, "Softmax", x, -1)
        return ctx.note_logits(name, x, made)
    if name in LIKE_EVERYWHERE:
        return ctx.elementwise(name, x)
    if name not in _KERAS_OWN:
        raise ctx.unsupported(f"the activation {name!r} is not supported")
    return _KERAS_OWN[name](ctx, x)


def _inner_layer(ctx: KerasLayer, x: Tensor, name: str) -> Tensor:
    """Return what a layer makes of a tensor that another layer has as its activation."""
    layer = ctx.layer_setting(name)
    if layer.type not in {"ReLU", "LeakyReLU"}:
        raise ctx.unsupported(f"the layer {layer.type!r} as an activation is not supported")
    return read_layer(ctx.inner(layer, [x], inside=""))[0]


def hard_slope(version: int) -> float:
    """Return the slope of ``hard_sigmoid``: ``0.2 x + 0.5`` in Keras 2, ``x / 6 + 0.5`` in Keras 3."""
    return 1 / 6 if version >= 3 else 0.2


def _hard_sigmoid(ctx: KerasLayer, x: Tensor) -> Tensor:
    return ctx.elementwise(hard_sigmoid, x, slope=hard_slope(ctx.version))


def _hard_swish(ctx: KerasLayer, x: Tensor) -> Tensor:
    return ctx.elementwise(hard_swish, x, slope=hard_slope(ctx.version))


def _gated(ctx: KerasLayer, x: Tensor) -> Tensor:
    """Return one half of the last axis times the logistic of the other."""
    size = ctx.size(-1, x)
    if size % 2:
        raise ctx.shape_error(f"glu of {size} channels, expected an even number")
    a, b = split(ctx, x, [size // 2, size // 2], -1)
    return ctx.broadcast("Mul", [a, ctx.unary("Sigmoid", b)])


_KERAS_OWN: dict[str, Callable[[KerasLayer, Tensor], Tensor]] = {
    "gelu": lambda ctx, x: ctx.elementwise(gelu, x, approximate=False),
    "glu": _gated,
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": _hard_swish,
    "hard_swish": _hard_swish,
    "leaky_relu": lambda ctx, x: ctx.elementwise(rectify, x, slope=0.2),
    "log_softmax": lambda ctx, x: along(ctx, "LogSoftmax", x, -1),
}


@layer_reader("Activation")
def activation(ctx: KerasLayer) -> Tensor:
    """An activation by its name."""
    return ctx.copied(activate(ctx, ctx.x, "activation"))


@layer_reader("ReLU")
def relu(ctx: KerasLayer) -> Tensor:
    """0 below ``threshold``, or a slope; at most ``max_value`` (``keras.activations.ReLU.static_call``)."""
    limit = None if ctx.setting("max_value") is None else ctx.number("max_value", 0.0)
    slope, threshold = ctx.number("negative_slope", 0.0), ctx.number("threshold", 0.0)
    return ctx.elementwise(rectify, ctx.x, slope=slope, limit=limit, threshold=threshold)


@layer_reader("LeakyReLU")
def leaky_relu(ctx: KerasLayer) -> Tensor:
    """``x`` above 0, a slope below: Keras 3 has another name for it."""
    name = ctx.first_setting("negative_slope", "alpha")
    return ctx.unary("LeakyRelu", ctx.x, {"alpha": ctx.number(name, 0.3)})


@layer_reader("ELU")
def elu(ctx: KerasLayer) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return ctx.unary("Elu", ctx.x, {"alpha": ctx.number("alpha", 1.0)})


@layer_reader("PReLU")
def prelu(ctx: KerasLayer) -> Tensor:
    """A slope below 0 that is learnt, for each place or shared over some axes."""
    shared = ctx.integer_list("shared_axes", [])
    shape = [1 if axis in shared else ctx.size(axis) for axis in range(1, ctx.rank())]
    slope = ctx.parameter("alpha", shape, role="slope")
    return ctx.broadcast("PRelu", [ctx.x, slope.reshaped((1, *shape))])


@layer_reader("Softmax")
def softmax(ctx: KerasLayer) -> Tensor:
    """Over one axis, the last by default."""
    axis = ctx.axis(ctx.one_axis(-1))
    made = along(ctx, "Softmax", ctx.x, axis)
    return ctx.note_logits("softmax", ctx.x, made) if axis == ctx.rank() - 1 else made


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


@layer_reader("ActivityRegularization", "Identity", "StochasticDepth", only_in_training=True)
def identity(ctx: KerasLayer) -> Tensor:
    """Nothing is disturbed in a net that predicts; StochasticDepth does not drop its branch in training."""
    if ctx.training and ctx.type == "StochasticDepth":
        raise ctx.unsupported("training with StochasticDepth is not supported")
    return ctx.copied(ctx.x)


@layer_reader("Dropout")
def dropout(ctx: KerasLayer) -> Tensor:
    """Nothing is dropped in a net that predicts, and the ratio in one that is trained."""
    ratio = _rate(ctx)
    shape = ctx.setting("noise_shape")
    if ctx.training and shape is not None:
        shared = [axis for axis, size in enumerate(shape) if axis and size == 1]
        return _dropped_together(ctx, ctx.x, ratio, shared)
    return ctx.unary("Dropout", ctx.x, more=[ctx.constant(ratio)])


@layer_reader("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", only_in_training=True)
def spatial_dropout(ctx: KerasLayer) -> Tensor:
    """Whole channels are dropped."""
    if not ctx.training:
        return ctx.copied(ctx.x)
    places = range(1, ctx.rank() - 1) if ctx.is_last() else range(2, ctx.rank())
    return _dropped_together(ctx, ctx.x, _rate(ctx), places)


@layer_reader("GaussianNoise", only_in_training=True)
def gaussian_noise(ctx: KerasLayer) -> Tensor:
    """Normal numbers are added."""
    if not ctx.training:
        return ctx.copied(ctx.x)
    return ctx.broadcast("Add", [ctx.x, _normal(ctx, 0.0, ctx.number("stddev", 0.0))])


@layer_reader("GaussianDropout", only_in_training=True)
def gaussian_dropout(ctx: KerasLayer) -> Tensor:
    """Times normal numbers around 1, with the variance of a dropout."""
    if not ctx.training:
        return ctx.copied(ctx.x)
    rate = _rate(ctx)
    return ctx.broadcast("Mul", [ctx.x, _normal(ctx, 1.0, math.sqrt(rate / (1.0 - rate)))])


@layer_reader("AlphaDropout", only_in_training=True)
def alpha_dropout(ctx: KerasLayer) -> Tensor:
    """Dropped elements become the least value of a SELU; mean and variance stay (``a x + b``)."""
    if not ctx.training:
        return ctx.copied(ctx.x)
    if ctx.setting("noise_shape") is not None:
        raise ctx.unsupported("noise_shape is not supported")
    rate, least = _rate(ctx), -SELU_ALPHA * SELU_SCALE
    a = ((1 - rate) * (1 + rate * least**2)) ** -0.5
    ones = ctx.unary("Dropout", _ones(ctx, ctx.x), more=[ctx.constant(rate)])
    kept = ctx.broadcast("Mul", [ones, ctx.scalar(1.0 - rate, ctx.x)])
    lost = ctx.broadcast("Sub", [ctx.scalar(1.0, ctx.x), kept])
    mixed = ctx.broadcast(
        "Add",
        [
            ctx.broadcast("Mul", [ctx.x, kept]),
            ctx.broadcast("Mul", [lost, ctx.scalar(least, ctx.x)]),
        ],
    )
    scaled = ctx.broadcast("Mul", [mixed, ctx.scalar(a, ctx.x)])
    return ctx.broadcast("Add", [scaled, ctx.scalar(-a * least * rate, ctx.x)])


def input_dropout(ctx: KerasLayer, x: Tensor) -> Tensor:
    """Drop features of a sequence for all of its steps, as a recurrent layer does with its inputs.

    Raises:
        UnsupportedError: The layer drops states, which happens inside its steps.
    """
    if not ctx.training:
        return x
    if ctx.number("recurrent_dropout", 0.0):
        raise ctx.unsupported("training with recurrent_dropout is not supported; set it to 0")
    rate = ctx.number("dropout", 0.0)
    return _dropped_together(ctx, x, rate, [1]) if rate else x


def _rate(ctx: KerasLayer) -> float:
    rate = ctx.number("rate", 0.5)
    if not 0 <= rate < 1:
        raise ctx.setting_error("rate", "0 <= rate < 1")
    return rate


def _normal(ctx: KerasLayer, mean: float, deviation: float) -> Tensor:
    return ctx.unary("RandomNormalLike", ctx.x, {"mean": mean, "scale": deviation})


def _ones(ctx: KerasLayer, x: Tensor) -> Tensor:
    zeros = ctx.broadcast("Sub", [x, x])
    return ctx.broadcast("Add", [zeros, ctx.scalar(1.0, x)])


def _dropped_together(ctx: KerasLayer, x: Tensor, rate: float, axes: Sequence[int]) -> Tensor:
    """Return a tensor with the same elements dropped all along some axes."""
    places = dict.fromkeys(axes, (0, 1, 1))
    factors: ir.Value | Tensor = ctx.unary(
        "Dropout", _ones(ctx, cut(ctx, x, places)), more=[ctx.constant(rate)]
    )
    return ctx.broadcast("Mul", [x, factors])


REASONS = {
    "Lambda": "its code is in the program that wrote the model; replace it by layers, or save a SavedModel",
    "TFOpLambda": "a function of TensorFlow called outside of a layer; save the model as a SavedModel",
    "SlicingOpLambda": "a slice written outside of a layer; save the model as a SavedModel",
}


REDUCTIONS = {
    "All": "ReduceMin",
    "Amax": "ReduceMax",
    "Amin": "ReduceMin",
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
    """Compare two tensors, or a tensor and a number."""
    holds = ctx.broadcast(elementwise.find_operator(ctx.type), _two_operands(ctx))
    return ctx.unary("Not", holds) if ctx.type == "NotEqual" else holds


@layer_reader("Gelu")
def gelu_of_ops(ctx: KerasLayer) -> Tensor:
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


@layer_reader("Cast", "ConvertToTensor")
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
