"""Activations (activation-inl.h, leaky_relu-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.symbol.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call
    from netweave.symbol.settings import Settings

ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}
LEAKY = ("leaky", "elu", "prelu", "rrelu", "selu", "gelu")


@operator_reader("Activation")
def activation(call: Call) -> ir.Value:
    """One of the words of ``ACTIVATIONS``."""
    kind = call.settings.choice("act_type", tuple(ACTIVATIONS))
    return call.add(ACTIVATIONS[kind], [call.value()])


def _leaky_arguments(settings: Settings) -> Sequence[str]:
    return ("data", "gamma") if settings.choice("act_type", LEAKY, "leaky") == "prelu" else ("data",)


@operator_reader("LeakyReLU", arguments=_leaky_arguments)
def leaky_relu(call: Call) -> ir.Value:
    """One of the words of ``LEAKY``; rrelu in test mode has the mean of its bounds as slope."""
    settings = call.settings
    kind = settings.choice("act_type", LEAKY, "leaky")
    slope = settings.number("slope", 0.25)
    lower, upper = settings.number("lower_bound", 0.125), settings.number("upper_bound", 0.334)
    x = call.value("data")
    if kind == "prelu":
        return call.add("PRelu", [x, _slopes(call, x)])
    if kind in {"selu", "gelu"}:
        return call.add(kind.capitalize(), [x])
    if kind == "elu":
        return call.add("Elu", [x], {"alpha": slope})
    return call.add("LeakyRelu", [x], {"alpha": slope if kind == "leaky" else (lower + upper) / 2})


def _slopes(call: Call, x: ir.Value) -> ir.Value:
    """Return one slope per channel, shaped to broadcast, or the one slope for all."""
    shape = call.shape(x)
    stored = call.stored_shape("gamma")
    if stored == (1,):
        return call.parameter("gamma", (1,), role="slope")
    channels = call.size(x, 1)
    if channels is None:
        channels = stored[0] if stored else None
    if channels is None or len(shape) == 2:
        return call.parameter("gamma", (channels,), role="slope")
    steps = [("reshape", (channels, *[1] * (len(shape) - 2)))]
    return call.parameter("gamma", (channels,), role="slope", layout=steps)


@operator_reader("SoftmaxActivation")
def softmax_activation(call: Call) -> ir.Value:
    """Softmax over axis 1 (``channel``) or over the last axis (``instance``)."""
    mode = call.settings.choice("mode", ("instance", "channel"), "instance")
    return call.add("Softmax", [call.value()], {"axis": 1 if mode == "channel" else -1})


@operator_reader("softmax", "log_softmax", "softmin")
def softmax(call: Call) -> ir.Value:
    """Softmax or its logarithm along ``axis``, of the input divided by ``temperature``."""
    settings = call.settings
    axis, temperature = settings.whole("axis", -1), settings.number("temperature", 1.0)
    settings.skip("dtype")
    if settings.flag("use_length", False):
        raise call.refuse("use_length=True is not read")
    x = call.value("data")
    if call.op == "softmin":
        x = call.add("Neg", [x])
    if temperature != 1.0:
        x = call.add("Div", [x, call.scalar(temperature, x)])
    return call.add("LogSoftmax" if call.op == "log_softmax" else "Softmax", [x], {"axis": axis})
