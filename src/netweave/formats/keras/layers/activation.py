"""Activations, as layers and as settings of other layers (keras/activations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from netweave.formats.keras.registry import layer_reader, read_layer
from netweave.formats.lowering.activations import gelu, hard_sigmoid, hard_swish, rectify
from netweave.formats.lowering.channels_last.axes import along, split

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor

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
