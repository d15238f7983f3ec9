"""Recurrent layers (keras/layers/rnn)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import FAR, concat, cut, split
from netweave.files.channels_last.elementwise import broadcast
from netweave.files.channels_last.recurrent import GRU, LSTM, RNN, Kind, Outputs, Weights, recurrent
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.layers.activation import hard_slope
from netweave.formats.keras.layers.masking import pack
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

BACKWARDS = {1: (-1, -FAR, -1)}
"""A sequence the other way round, as a cut."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a recurrent layer says of itself."""

    kind: Kind
    units: int
    attributes: dict[str, Any]
    bias: tuple[int, ...] | None
    sequences: bool
    states: bool
    backwards: bool
    zeros: bool

    def like(self, other: Settings) -> bool:
        """Whether another layer differs in its way alone."""
        return replace(self, backwards=other.backwards) == other


@layer_reader("LSTM", "GRU", "SimpleRNN")
def recurrent_layer(call: Call) -> list[Tensor]:
    """Over (batch, time, features); the last step, all steps, or the last states as well."""
    settings = settings_of(call, call.layer)
    x, *first = call.inputs or [call.x]
    made = run(call, settings, x, call.mask(x), "cell", states=first)
    out = made.steps if settings.sequences else made.states[0]
    out = call.masked(out, call.mask(x) if settings.sequences else None)
    return [out, *made.states] if settings.states else [out]


def run(
    call: Call,
    settings: Settings,
    x: Tensor,
    mask: Tensor | None,
    inside: str,
    *,
    states: Sequence[Tensor] = (),
    zeros: bool = False,
) -> Outputs:
    """Return what one layer makes of a sequence, the steps in the order in which it takes them."""
    packed = None
    if settings.backwards:
        x = cut(call.writer, x, BACKWARDS)
        mask = cut(call.writer, mask, BACKWARDS) if mask is not None else None
    if mask is not None:
        packed = pack(call, x, mask)
    made = recurrent(
        call.writer,
        settings.kind,
        packed.x if packed else x,
        [_weights(call, settings, inside, x)],
        units=settings.units,
        attributes=settings.attributes,
        states=_in_order(call, settings, states),
        lengths=packed.lengths if packed else None,
    )
    if packed is None or not settings.sequences:
        return made
    return Outputs(packed.spread(call.writer, made.steps, zeros=zeros or settings.zeros), made.states)


@layer_reader("Bidirectional")
def bidirectional(call: Call) -> list[Tensor]:
    """One layer forwards and one backwards over the same sequence."""
    both = [settings_of(call, layer) for layer in _both_layers(call)]
    if both[0].backwards or len(call.inputs) > 1:
        raise call.refuse("first states, and a layer that goes backwards itself, are not read")
    mask = call.mask(call.x)
    if both[0].like(both[1]) and mask is None and not both[0].states:
        return [call.masked(out, mask) for out in _at_once(call, both[0])]
    ways = [
        run(call, settings, call.x, mask, f"{side}_layer/cell", zeros=True)
        for side, settings in zip(("forward", "backward"), both, strict=True)
    ]
    ends = [made.steps if both[0].sequences else made.states[0] for made in ways]
    if both[0].sequences:
        ends[1] = cut(call.writer, ends[1], BACKWARDS)
    outs = [call.masked(out, mask if both[0].sequences else None) for out in _merged(call, ends)]
    return [*outs, *(state for made in ways for state in made.states)] if both[0].states else outs


def _both_layers(call: Call) -> tuple[LayerConfig, LayerConfig]:
    """Return the layer that goes forwards, and the one that goes backwards: the same one if none is named."""
    forward = _inner(call, "layer")
    if call.setting("backward_layer") is not None:
        backward = _inner(call, "backward_layer")
    else:
        backward = replace(forward, settings={**forward.settings, "go_backwards": True})
    for layer in (forward, backward):
        if layer.type not in KINDS or layer.type.startswith("CuDNN"):
            raise call.refuse(f"around a layer of class {layer.type!r} it is not read")
    return forward, backward


def _at_once(call: Call, settings: Settings) -> list[Tensor]:
    """Return what both ways make as one operator."""
    weights = [_weights(call, settings, f"{side}_layer/cell", call.x) for side in ("forward", "backward")]
    attributes = {**settings.attributes, "direction": "bidirectional"}
    for name in ("activations", "activation_alpha", "activation_beta"):
        if name in attributes:
            attributes[name] = attributes[name] * 2
    made = recurrent(call.writer, settings.kind, call.x, weights, units=settings.units, attributes=attributes)
    out = made.steps if settings.sequences else made.states[0]
    if call.setting("merge_mode", "concat") == "concat":
        return [out]
    return _merged(call, split(call.writer, out, [settings.units, settings.units], -1))


def _merged(call: Call, ends: Sequence[Tensor]) -> list[Tensor]:
    """Return both ways joined as ``merge_mode`` says; each by itself for None."""
    mode = call.setting("merge_mode", "concat")
    if mode is None:
        return list(ends)
    if mode == "concat":
        return [concat(call.writer, ends, -1)]
    op_type = {"sum": "Add", "ave": "Add", "mul": "Mul"}.get(str(mode))
    if op_type is None:
        raise call.refuse(f"merge_mode={mode!r:.40} is not read")
    made = broadcast(call.writer, op_type, ends)
    if mode == "ave":
        made = broadcast(call.writer, "Mul", [made, Tensor(call.writer.number(0.5, made.value))])
    return [made]


def _inner(call: Call, name: str) -> LayerConfig:
    held = call.setting(name)
    if not isinstance(held, dict) or not isinstance(held.get("config"), dict):
        raise call.wrong(f"its {name!r} is no layer")
    return LayerConfig(str(held["config"].get("name", "")), str(held.get("class_name")), held["config"])


def settings_of(call: Call, layer: LayerConfig) -> Settings:
    """Return what a recurrent layer says of itself, in ONNX's words."""
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
    return Settings(
        kind,
        units,
        attributes,
        bias if settings.get("use_bias", True) else None,
        bool(settings.get("return_sequences", False)),
        bool(settings.get("return_state", False)),
        bool(settings.get("go_backwards", False)),
        bool(settings.get("zero_output_for_mask", False)),
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


def _weights(call: Call, settings: Settings, inside: str, x: Tensor) -> Weights:
    columns = len(settings.kind.gates) * settings.units
    (features,) = call.writer.known(x, [-1])
    kernel = call.stored("kernel", (features, columns), inside=inside)
    state = call.stored("recurrent_kernel", (settings.units, columns), inside=inside)
    bias = None
    if settings.bias is not None:
        bias = call.stored("bias", settings.bias, role="bias", inside=inside)
    return Weights(kernel, state, bias)


def _in_order(call: Call, settings: Settings, states: Sequence[Tensor]) -> list[Tensor | None]:
    wanted = 2 if settings.kind is LSTM else 1
    if states and len(states) != wanted:
        raise call.wrong(f"is given {len(states)} first states, expected {wanted}")
    return list(states)
