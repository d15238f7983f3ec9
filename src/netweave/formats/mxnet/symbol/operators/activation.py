"""Activations (activation-inl.h, leaky_relu-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.activations import FUNCTIONS, gelu
from netweave.formats.mxnet.symbol.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

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
    stored = ctx.stored_shape("gamma")
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
