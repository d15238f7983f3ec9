"""Activations, as layers of Keras."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.keras.source.table import Call, channels_last, written

if TYPE_CHECKING:
    from netweave.files.source_code.steps import Step

_NAMES = {
    "Elu": "elu",
    "Exp": "exponential",
    "HardSwish": "hard_silu",
    "Mish": "mish",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Swish": "silu",
    "Tanh": "tanh",
}


@written(*_NAMES)
def plain(call: Call) -> Step:
    """A function by its name."""
    if call.node.op_type == "Elu" and call.get("alpha", 1.0) != 1:
        return call.step(f"layers.ELU({number(call.get('alpha'))})({{0}})")
    if call.node.op_type == "Swish" and call.get("alpha", 1.0) != 1:
        raise Refused("its factor is not 1")
    return call.step(f'layers.Activation("{_NAMES[call.node.op_type]}")({{0}})')


@written("Relu")
def relu(call: Call) -> Step:
    """Nothing below 0."""
    return call.step("layers.ReLU()({0})")


@written("LeakyRelu")
def leaky_relu(call: Call) -> Step:
    """A slope below 0."""
    return call.step(f"layers.LeakyReLU({number(call.get('alpha', 0.01))})({{0}})")


@written("Gelu")
def gelu(call: Call) -> Step:
    """By the error function, which Keras takes when it is given a name alone."""
    if call.get("approximate", "none") != "none":
        raise Refused("its approximation is not written")
    return call.step('layers.Activation("gelu")({0})')


@written("HardSigmoid")
def hard_sigmoid(call: Call) -> Step:
    """Keras's line between 0 and 1 has the slope 1/6."""
    if not math.isclose(call.get("alpha", 0.2), 1 / 6, rel_tol=1e-4) or call.get("beta", 0.5) != 0.5:
        raise Refused("Keras's has a slope of 1/6")
    return call.step('layers.Activation("hard_sigmoid")({0})')


@written("Clip")
def clip(call: Call) -> Step:
    """Between 0 and a bound."""
    low = float(call.constant(1).reshape(-1)[0]) if call.has(1) else -math.inf
    high = float(call.constant(2).reshape(-1)[0]) if call.has(2) else math.inf
    if low != 0:
        raise Refused("Keras's ReLU is bounded by 0 below")
    bound = f"max_value={number(high)}" if high < 1e38 else ""
    return call.step(f"layers.ReLU({bound})({{0}})")


@written("Softmax")
def softmax(call: Call) -> Step:
    """Over one axis."""
    rank = call.rank(0)
    axis = channels_last(call.axis("axis", -1), rank)
    return call.step("layers.Softmax()({0})" if axis == rank - 1 else f"layers.Softmax({axis})({{0}})")
