"""Recurrent layers (keras/layers/rnn)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import FAR, cut, split
from netweave.files.channels_last.elementwise import broadcast
from netweave.files.channels_last.recurrent import GRU, LSTM, RNN, Kind, Weights, recurrent
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.layers.activation import hard_slope
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.keras.call import Call

KINDS: dict[str, Kind] = {
    "CuDNNGRU": GRU,
    "CuDNNLSTM": LSTM,
    "GRU": GRU,
    "LSTM": LSTM,
    "SimpleRNN": RNN,
}
ACTIVATIONS = {
    "elu": "Elu",
    "hard_sigmoid": "HardSigmoid",
    "linear": "Affine",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
}
"""Keras's activations by ONNX's names inside recurrent operators."""


@dataclass(frozen=True, slots=True)
class _Settings:
    """What a recurrent layer says of itself."""

    kind: Kind
    units: int
    attributes: dict[str, Any]
    bias: tuple[int, ...] | None
    sequences: bool
    states: bool
    backwards: bool


@layer_reader("LSTM", "GRU", "SimpleRNN")
def recurrent_layer(call: Call) -> list[Tensor]:
    """Over (batch, time, features); the last step, all steps, or the last states as well."""
    settings = _settings(call, call.layer)
    x = call.inputs[0] if call.inputs else call.x
    first = list(call.inputs[1:])
    if settings.backwards:
        x = cut(call.writer, x, {1: (-1, -FAR, -1)})
    made = recurrent(
        call.writer,
        settings.kind,
        x,
        [_weights(call, settings, "cell")],
        units=settings.units,
        attributes=settings.attributes,
        states=_in_order(call, settings, first),
    )
    out = made.steps if settings.sequences else made.states[0]
    return [out, *made.states] if settings.states else [out]


@layer_reader("Bidirectional")
def bidirectional(call: Call) -> list[Tensor]:
    """One layer forwards and one backwards over the same sequence."""
    inner = _inner(call, "layer")
    if inner.type not in KINDS or inner.type.startswith("CuDNN"):
        raise call.refuse(f"around a layer of class {inner.type!r} it is not read")
    settings = _settings(call, inner)
    if settings.states or settings.backwards or len(call.inputs) > 1:
        raise call.refuse("states in or out, and a layer that goes backwards itself, are not read")
    weights = [_weights(call, settings, f"{side}_layer/cell") for side in ("forward", "backward")]
    attributes = {**settings.attributes, "direction": "bidirectional"}
    for name in ("activations", "activation_alpha", "activation_beta"):
        if name in attributes:
            attributes[name] = attributes[name] * 2
    made = recurrent(call.writer, settings.kind, call.x, weights, units=settings.units, attributes=attributes)
    out = made.steps if settings.sequences else made.states[0]
    return [_merged(call, out, settings.units)]


def _merged(call: Call, both: Tensor, units: int) -> Tensor:
    mode = call.setting("merge_mode", "concat")
    if mode == "concat":
        return both
    op_type = {"sum": "Add", "ave": "Add", "mul": "Mul"}.get(str(mode))
    if op_type is None:
        raise call.refuse(f"merge_mode={mode!r} is not read")
    made = broadcast(call.writer, op_type, split(call.writer, both, [units, units], -1))
    if mode == "ave":
        return broadcast(call.writer, "Mul", [made, Tensor(call.writer.number(0.5, made.value))])
    return made


def _inner(call: Call, name: str) -> LayerConfig:
    held = call.setting(name)
    if not isinstance(held, dict) or not isinstance(held.get("config"), dict):
        raise call.wrong(f"its {name!r} is no layer")
    return LayerConfig(str(held["config"].get("name", "")), str(held.get("class_name")), held["config"])


def _settings(call: Call, layer: LayerConfig) -> _Settings:
    kind = KINDS[layer.type]
    settings = layer.settings
    units = settings.get("units")
    if not isinstance(units, int) or isinstance(units, bool) or units < 1:
        raise call.wrong(f"units={units!r:.40}, expected a whole number of at least 1")
    gates = len(kind.gates)
    attributes = _activations(call, layer, kind)
    bias: tuple[int, ...] | None = (gates * units,)
    if kind is GRU:
        after = bool(settings.get("reset_after", False))
        attributes["linear_before_reset"] = int(after)
        bias = (2, gates * units) if after else bias
    return _Settings(
        kind,
        units,
        attributes,
        bias if settings.get("use_bias", True) else None,
        bool(settings.get("return_sequences", False)),
        bool(settings.get("return_state", False)),
        bool(settings.get("go_backwards", False)),
    )


def _activations(call: Call, layer: LayerConfig, kind: Kind) -> dict[str, Any]:
    """Return ONNX's activations: of the gates and of the candidate, for an LSTM of the output as well."""
    words = []
    for name, default in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        value = layer.settings.get(name, default)
        value = value.get("config") if isinstance(value, dict) else value
        if value not in ACTIVATIONS:
            raise call.refuse(f"{name}={value!r:.40} is not read in a recurrent layer")
        words.append(value)
    own, gates = words
    order = {LSTM: [gates, own, own], GRU: [gates, own], RNN: [own]}[kind]
    attributes: dict[str, Any] = {"activations": [ACTIVATIONS[word] for word in order]}
    if "hard_sigmoid" in order:
        attributes["activation_alpha"] = [hard_slope(call.keras)] * order.count("hard_sigmoid")
        attributes["activation_beta"] = [0.5] * order.count("hard_sigmoid")
    if "linear" in order:
        if "hard_sigmoid" in order:
            raise call.refuse("activation=linear beside hard_sigmoid is not read")
        attributes["activation_alpha"] = [1.0] * order.count("linear")
    return attributes


def _weights(call: Call, settings: _Settings, inside: str) -> Weights:
    columns = len(settings.kind.gates) * settings.units
    kernel = call.stored("kernel", (call.channels(), columns), inside=inside)
    state = call.stored("recurrent_kernel", (settings.units, columns), inside=inside)
    bias = None
    if settings.bias is not None:
        bias = call.stored("bias", settings.bias, role="bias", inside=inside)
    return Weights(kernel, state, bias)


def _in_order(call: Call, settings: _Settings, states: Sequence[Tensor]) -> list[Tensor | None]:
    wanted = 2 if settings.kind is LSTM else 1
    if states and len(states) != wanted:
        raise call.wrong(f"is given {len(states)} first states, expected {wanted}")
    return list(states)
