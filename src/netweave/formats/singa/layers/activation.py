"""Layers that act on each element alone: ``activation.cc``, ``relu.cc``, ``stanh.cc``, ``dropout.cc``."""

from __future__ import annotations

from functools import partial

from netweave.formats.singa.call import Call, Made, layer

STANH_OUTER = 1.7159047
STANH_INNER = 0.66666667
"""The factors of the scaled tanh: ``singa_op.h``."""

_ACTIVATIONS = {"RELU": "Relu", "SIGMOID": "Sigmoid", "TANH": "Tanh"}


def _one(op_type: str, call: Call) -> Made:
    return Made([call.add(op_type, [call.data()])])


layer("kReLU")(partial(_one, "Relu"))
layer("kSigmoid")(partial(_one, "Sigmoid"))


@layer("kSTanh")
def scaled_tanh(call: Call) -> Made:
    """``1.7159047 * tanh(0.66666667 * x)``."""
    inner = call.builder.add("Mul", [call.data(), call.builder.constant(STANH_INNER)])
    tanh = call.builder.add("Tanh", [inner])
    return Made([call.add("Mul", [tanh, call.builder.constant(STANH_OUTER)])])


@layer("kActivation", "kCudnnActivation")
def activation(call: Call) -> Made:
    """``RELU``, ``SIGMOID`` or ``TANH``, as ``activation_conf`` says; SINGA never wrote ``STANH``."""
    settings = call.spec["activation_conf"]
    if settings["type"] not in _ACTIVATIONS:
        raise call.unsupported(
            f"the type {settings['type']} is one that SINGA does not compute here; write a kSTanh",
            settings.line_of("type"),
        )
    return _one(_ACTIVATIONS[settings["type"]], call)


@layer("kDropout")
def dropout(call: Call) -> Made:
    """Zeroes elements in training and scales the rest; outside it, nothing."""
    settings = call.spec["dropout_conf"]
    ratio = settings["dropout_ratio"]
    if not 0 <= ratio < 1:
        raise call.wrong(
            f"'dropout_ratio' is {ratio:g}, expected 0 or more and less than 1",
            settings.line_of("dropout_ratio"),
        )
    return Made([call.add("Dropout", [call.data(), call.builder.constant(ratio)])])
