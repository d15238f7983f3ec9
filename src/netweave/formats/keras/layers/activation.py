"""Activations, as layers and as settings of other layers (keras/activations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from netweave.files.channels_last.axes import along, split
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.keras.call import Call

PLAIN = {
    "celu": "Celu",
    "elu": "Elu",
    "exponential": "Exp",
    "mish": "Mish",
    "relu": "Relu",
    "selu": "Selu",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
}
"""Activations that ONNX has under the same rule."""


def activate(call: Call, x: Tensor, name: str) -> Tensor:
    """Return what a setting of the layer, a name or a layer as written, makes of a tensor."""
    value = call.setting(name)
    if value is None:
        return x
    if isinstance(value, Mapping):
        inner = value.get("config")
        if isinstance(inner, Mapping):
            return _of_class(call, x, str(value.get("class_name")), inner)
        value = inner
    return apply(call, x, str(value))


def apply(call: Call, x: Tensor, name: str) -> Tensor:
    """Return what an activation makes of a tensor.

    Raises:
        UnsupportedError: Netweave does not know it.
    """
    if name == "linear":
        return x
    if name in PLAIN:
        return unary(call.writer, PLAIN[name], x)
    if name in _COMPOSED:
        return _COMPOSED[name](call, x)
    raise call.refuse(f"the activation {name!r} is not read")


def _of_class(call: Call, x: Tensor, kind: str, settings: Mapping[str, Any]) -> Tensor:
    """Return what a layer makes of a tensor that another layer has as its activation."""
    if kind not in {"ReLU", "LeakyReLU"}:
        raise call.refuse(f"the layer {kind!r} as an activation is not read")
    inner = call.inner(LayerConfig(call.layer.name, kind, settings), [x], inside="")
    return _relu(inner) if kind == "ReLU" else _leaky_relu(inner)


def _clipped(call: Call, x: Tensor, low: float, high: float | None) -> Tensor:
    limits = [call.writer.number(low, x.value)]
    if high is not None:
        limits.append(call.writer.number(high, x.value))
    return unary(call.writer, "Clip", x, more=limits)


def _hard_sigmoid(call: Call, x: Tensor) -> Tensor:
    """Keras 2: ``0.2 x + 0.5`` between 0 and 1; Keras 3: ``x / 6 + 0.5``."""
    return unary(call.writer, "HardSigmoid", x, {"alpha": hard_slope(call.keras), "beta": 0.5})


def hard_slope(keras: int) -> float:
    """Return the slope of ``hard_sigmoid``, which Keras 3 changed."""
    return 1 / 6 if keras >= 3 else 0.2


def _times(function: Callable[[Call, Tensor], Tensor]) -> Callable[[Call, Tensor], Tensor]:
    return lambda call, x: broadcast(call.writer, "Mul", [x, function(call, x)])


def _gated(call: Call, x: Tensor) -> Tensor:
    """Return one half of the last axis times the logistic of the other."""
    (size,) = call.writer.known(x, [-1])
    if size % 2:
        raise call.wrong(f"glu of {size} channels, expected an even number")
    a, b = split(call.writer, x, [size // 2, size // 2], -1)
    return broadcast(call.writer, "Mul", [a, unary(call.writer, "Sigmoid", b)])


def _gelu(call: Call, x: Tensor) -> Tensor:
    return unary(call.writer, "Gelu", x, {"approximate": "none"})


_COMPOSED: dict[str, Callable[[Call, Tensor], Tensor]] = {
    "gelu": _gelu,
    "glu": _gated,
    "hard_sigmoid": _hard_sigmoid,
    "hard_silu": _times(_hard_sigmoid),
    "hard_swish": _times(_hard_sigmoid),
    "hard_tanh": lambda call, x: _clipped(call, x, -1.0, 1.0),
    "leaky_relu": lambda call, x: unary(call.writer, "LeakyRelu", x, {"alpha": 0.2}),
    "log_softmax": lambda call, x: along(call.writer, "LogSoftmax", x, -1),
    "relu6": lambda call, x: _clipped(call, x, 0.0, 6.0),
    "silu": _times(lambda call, x: unary(call.writer, "Sigmoid", x)),
    "softmax": lambda call, x: along(call.writer, "Softmax", x, -1),
    "soft_shrink": lambda call, x: unary(call.writer, "Shrink", x, {"lambd": 0.5, "bias": 0.5}),
    "hard_shrink": lambda call, x: unary(call.writer, "Shrink", x, {"lambd": 0.5, "bias": 0.0}),
    "swish": _times(lambda call, x: unary(call.writer, "Sigmoid", x)),
    "tanh_shrink": lambda call, x: broadcast(call.writer, "Sub", [x, unary(call.writer, "Tanh", x)]),
}


@layer_reader("Activation")
def activation(call: Call) -> Tensor:
    """An activation by its name."""
    made = activate(call, call.x, "activation")
    return unary(call.writer, "Identity", call.x) if made is call.x else made


@layer_reader("ReLU")
def relu(call: Call) -> Tensor:
    """0 below ``threshold``, or a slope; at most ``max_value``."""
    return _relu(call)


def _relu(call: Call) -> Tensor:
    """Follows ``keras.activations.ReLU.static_call``."""
    limit = None if call.setting("max_value") is None else call.real("max_value", 0.0)
    slope, threshold = call.real("negative_slope", 0.0), call.real("threshold", 0.0)
    if threshold:
        return _above(call, limit, slope, threshold)
    if not slope:
        return unary(call.writer, "Relu", call.x) if limit is None else _clipped(call, call.x, 0.0, limit)
    leaky = unary(call.writer, "LeakyRelu", call.x, {"alpha": slope})
    return leaky if limit is None else _with(call, "Min", leaky, limit)


def _above(call: Call, limit: float | None, slope: float, threshold: float) -> Tensor:
    """``x`` above a threshold, at most ``limit``; ``slope * (x - threshold)`` from there down."""
    above = unary(call.writer, "ThresholdedRelu", call.x, {"alpha": threshold})
    if limit is not None:
        above = _clipped(call, above, 0.0, limit)
    if not slope:
        return above
    below = _with(call, "Min", _with(call, "Sub", call.x, threshold), 0.0)
    return broadcast(call.writer, "Add", [above, _with(call, "Mul", below, slope)])


def _with(call: Call, op_type: str, x: Tensor, number: float) -> Tensor:
    return unary(call.writer, op_type, x, more=[call.writer.number(number, x.value)])


@layer_reader("LeakyReLU")
def leaky_relu(call: Call) -> Tensor:
    """``x`` above 0, a slope below."""
    return _leaky_relu(call)


def _leaky_relu(call: Call) -> Tensor:
    name = "negative_slope" if "negative_slope" in call.layer.settings else "alpha"
    return unary(call.writer, "LeakyRelu", call.x, {"alpha": call.real(name, 0.3)})


@layer_reader("ELU")
def elu(call: Call) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return unary(call.writer, "Elu", call.x, {"alpha": call.real("alpha", 1.0)})


@layer_reader("PReLU")
def prelu(call: Call) -> Tensor:
    """A slope below 0 that is learnt, for each place or shared over some axes."""
    x = call.x
    sizes = call.shape(x)
    shared = call.setting("shared_axes") or []
    shape = [1 if axis in shared else call.writer.known(x, [axis])[0] for axis in range(1, len(sizes))]
    slope = call.stored("alpha", shape, role="slope")
    return broadcast(call.writer, "PRelu", [x, slope.reshaped((1, *shape))])


@layer_reader("Softmax")
def softmax(call: Call) -> Tensor:
    """Over one axis, the last by default."""
    axis = call.setting("axis", -1)
    if isinstance(axis, list) and len(axis) == 1:
        (axis,) = axis
    if not isinstance(axis, int):
        raise call.refuse(f"axis={axis!r}: only one axis is read")
    return along(call.writer, "Softmax", call.x, axis)


@layer_reader("Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "AlphaDropout")
@layer_reader("GaussianDropout", "GaussianNoise", "ActivityRegularization", "StochasticDepth", "Identity")
def dropout(call: Call) -> Tensor:
    """Nothing is dropped in a net that predicts."""
    if call.layer.type != "Dropout":
        return unary(call.writer, "Identity", call.x)
    ratio = call.real("rate", 0.5)
    if not 0 <= ratio < 1:
        raise call.wrong(f"rate={ratio}, expected 0 <= rate < 1")
    return unary(call.writer, "Dropout", call.x, more=[call.writer.builder.constant(ratio)])
