"""Layers that disturb what they read while a net is trained (keras/layers/regularization)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.formats.keras.registry import layer_reader
from netweave.formats.lowering.channels_last.axes import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor

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
