"""Activations as layers of Keras, and functions of each element as those of ``keras.ops``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.keras.source.table import Call, channels_last, written

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.source_code.steps import Step

_NAMES = {
    "Elu": "elu",
    "Exp": "exponential",
    "HardSwish": "hard_silu",
    "Mish": "mish",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
}


@written(*_NAMES)
def plain(call: Call) -> Step:
    """A function by its name."""
    if call.node.op_type == "Elu" and call.get("alpha", 1.0) != 1:
        return call.step(f"layers.ELU({number(call.get('alpha'))})({{0}})")
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
    """A line between 0 and 1; Keras's own has the slope 1/6."""
    alpha, beta = call.get("alpha", 0.2), call.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-4) and beta == 0.5:
        return call.step('layers.Activation("hard_sigmoid")({0})')
    return call.step(f"ops.clip({number(alpha)} * {{0}} + {number(beta)}, 0, 1)")


@written("Clip")
def clip(call: Call) -> Step:
    """Between two bounds, or on one side of one."""
    bounds = [_bound(call, index) for index in (1, 2)]
    low, high = (number(bound) for bound in bounds)
    if _is_words(call.node.outputs[0]) and max(map(abs, bounds)) < math.inf:
        return call.step(f"ops.clip({{0}}, {int(bounds[0])}, {int(bounds[1])})")
    if bounds[0] == 0:
        return call.step(f"layers.ReLU({'' if bounds[1] == math.inf else f'max_value={high}'})({{0}})")
    if bounds[0] > -math.inf and bounds[1] < math.inf:
        return call.step(f"ops.clip({{0}}, {low}, {high})")
    if bounds[0] > -math.inf:
        return call.step(f"ops.maximum({{0}}, {low})")
    return call.step("{0}" if bounds[1] == math.inf else f"ops.minimum({{0}}, {high})")


def _bound(call: Call, index: int) -> float:
    """Return a bound; one that no number reaches is none."""
    none = -math.inf if index == 1 else math.inf
    bound = float(call.constant(index).reshape(-1)[0]) if call.has(index) else none
    return none if abs(bound) > 1e38 else bound


_FUNCTIONS = {
    "Abs": "absolute",
    "Ceil": "ceil",
    "Cos": "cos",
    "Erf": "erf",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Reciprocal": "reciprocal",
    "Sign": "sign",
    "Sin": "sin",
    "Sqrt": "sqrt",
}


@written(*_FUNCTIONS)
def function(call: Call) -> Step:
    """A function of each element."""
    return call.step(f"ops.{_FUNCTIONS[call.node.op_type]}({{0}})")


@written("Cast")
def cast(call: Call) -> Step:
    """Another type; numbers of words stay as they are, since an embedding takes them as whole numbers."""
    if _is_words(call.node.outputs[0]):
        return call.step("{0}")
    kind = call.node.outputs[0].dtype
    if kind is None:
        raise Refused("its type is not known")
    return call.step(f'ops.cast({{0}}, "{kind.numpy().name}")')


def _is_words(value: ir.Value) -> bool:
    """Whether a value is read as numbers of words alone, bounded or not."""
    return bool(value.uses()) and all(
        not use.node.domain
        and (
            (use.node.op_type == "Gather" and use.idx == 1)
            or (use.node.op_type == "Clip" and use.idx == 0 and _is_words(use.node.outputs[0]))
        )
        for use in value.uses()
    )


@written("LogSoftmax")
def log_softmax(call: Call) -> Step:
    """The logarithm of a softmax, over one axis."""
    rank = call.rank(0)
    axis = channels_last(call.axis("axis", -1), rank)
    return call.step("ops.log_softmax({0})" if axis == rank - 1 else f"ops.log_softmax({{0}}, axis={axis})")


@written("Softmax")
def softmax(call: Call) -> Step:
    """Over one axis."""
    rank = call.rank(0)
    axis = channels_last(call.axis("axis", -1), rank)
    return call.step("layers.Softmax()({0})" if axis == rank - 1 else f"layers.Softmax({axis})({{0}})")
