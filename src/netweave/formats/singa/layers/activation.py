"""Layers that act on each element alone: ``activation.cc``, ``relu.cc``, ``stanh.cc``, ``dropout.cc``."""

from __future__ import annotations

from functools import partial

from netweave.formats.singa.context import Output, SingaLayer, layer

STANH_OUTER = 1.7159047
STANH_INNER = 0.66666667
"""The factors of the scaled tanh: ``singa_op.h``."""

_ACTIVATIONS = {"RELU": "Relu", "SIGMOID": "Sigmoid", "TANH": "Tanh"}


def _one(op_type: str, ctx: SingaLayer) -> Output:
    return Output([ctx.add_output(op_type, [ctx.data()])])


layer("kReLU")(partial(_one, "Relu"))
layer("kSigmoid")(partial(_one, "Sigmoid"))


@layer("kSTanh")
def scaled_tanh(ctx: SingaLayer) -> Output:
    """``1.7159047 * tanh(0.66666667 * x)``."""
    inner = ctx.add("Mul", [ctx.data(), ctx.constant(STANH_INNER)])
    tanh = ctx.add("Tanh", [inner])
    return Output([ctx.add_output("Mul", [tanh, ctx.constant(STANH_OUTER)])])


@layer("kActivation", "kCudnnActivation")
def activation(ctx: SingaLayer) -> Output:
    """``RELU``, ``SIGMOID`` or ``TANH``, as ``activation_conf`` says; SINGA never wrote ``STANH``."""
    settings = ctx.spec["activation_conf"]
    if settings["type"] not in _ACTIVATIONS:
        raise ctx.unsupported(
            f"the type {settings['type']} is not computed by SINGA in this layer; use a kSTanh",
            settings.line_of("type"),
        )
    return _one(_ACTIVATIONS[settings["type"]], ctx)


@layer("kDropout")
def dropout(ctx: SingaLayer) -> Output:
    """Zeroes elements in training and scales the rest; outside it, nothing."""
    settings = ctx.spec["dropout_conf"]
    ratio = settings["dropout_ratio"]
    if not 0 <= ratio < 1:
        raise ctx.read_error(
            f"'dropout_ratio' is {ratio:g}, expected 0 or more and less than 1",
            settings.line_of("dropout_ratio"),
        )
    return Output([ctx.add_output("Dropout", [ctx.data(), ctx.constant(ratio)])])
