"""Recurrent layers and layers around a layer (keras/layers/rnn)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.formats.keras.layers.activation import hard_slope
from netweave.formats.keras.layers.masking import pack
from netweave.formats.keras.layers.noise import input_dropout
from netweave.formats.keras.registry import READERS, layer_reader, read_layer
from netweave.formats.lowering.channels_last.axes import concat, flip, reshape, split
from netweave.formats.lowering.channels_last.recurrent import Outputs, Weights, recurrent
from netweave.formats.lowering.recurrent import RecurrentCell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.keras.config import LayerConfig
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor


OPERATORS = {"CuDNNGRU": "GRU", "CuDNNLSTM": "LSTM", "GRU": "GRU", "LSTM": "LSTM", "SimpleRNN": "RNN"}
"""ONNX's operator for each class of layers, and for each class of cells."""

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
class Settings:
    """The settings of a recurrent layer."""

    cell: RecurrentCell
    units: int
    bias: tuple[int, ...] | None
    sequences: bool
    states: bool
    backwards: bool
    zeros: bool

    def like(self, other: Settings) -> bool:
        """Return whether another layer differs in its way alone."""
        return replace(self, backwards=other.backwards) == other


@layer_reader("LSTM", "GRU", "SimpleRNN")
def recurrent_layer(ctx: KerasLayer) -> list[Tensor]:
    """Over (batch, time, features); the last step, all steps, or the last states as well."""
    ctx.setting("dropout")  # of the inputs, as ``input_dropout`` does it
    settings = settings_of(ctx)
    x, *states = ctx.inputs or [ctx.x]
    outputs = run(ctx, settings, x, ctx.mask(x), "cell", states=states)
    out = outputs.steps if settings.sequences else outputs.states[0]
    out = ctx.masked(out, ctx.mask(x) if settings.sequences else None)
    return [out, *outputs.states] if settings.states else [out]


def run(
    ctx: KerasLayer,
    settings: Settings,
    x: Tensor,
    mask: Tensor | None,
    inside: str,
    *,
    states: Sequence[Tensor] = (),
    zeros: bool = False,
) -> Outputs:
    """Return what one layer makes of a sequence, the steps in the order in which it takes them."""
    if states and len(states) != settings.cell.num_states:
        raise ctx.read_error(f"has {len(states)} initial states, expected {settings.cell.num_states}")
    if settings.backwards:
        x = flip(ctx, x, [1])
        mask = flip(ctx, mask, [1]) if mask is not None else None
    x = input_dropout(ctx, x)
    packed = pack(ctx, x, mask) if mask is not None else None
    outputs = recurrent(
        ctx,
        settings.cell,
        packed.x if packed else x,
        [_weights(ctx, settings, inside, x)],
        units=settings.units,
        states=states,
        lengths=packed.lengths if packed else None,
    )
    if packed is None or not settings.sequences:
        return outputs
    return Outputs(packed.spread(ctx, outputs.steps, zeros=zeros or settings.zeros), outputs.states)


@layer_reader("Bidirectional")
def bidirectional(ctx: KerasLayer) -> list[Tensor]:
    """One layer forwards and one backwards over the same sequence."""
    forward, backward = (settings_of(ctx.inner(layer, [], inside="")) for layer in _both_layers(ctx))
    if forward.backwards or len(ctx.inputs) > 1:
        raise ctx.unsupported("initial states, and an inner layer with go_backwards, are not supported")
    mask = ctx.mask(ctx.x)
    if forward.like(backward) and mask is None and not forward.states:
        return _at_once(ctx, forward)
    ways = [
        run(ctx, settings, ctx.x, mask, f"{side}_layer/cell", zeros=True)
        for side, settings in (("forward", forward), ("backward", backward))
    ]
    ends = [way.steps if forward.sequences else way.states[0] for way in ways]
    if forward.sequences:
        ends[1] = flip(ctx, ends[1], [1])
    outs = [ctx.masked(out, mask if forward.sequences else None) for out in _merged(ctx, ends)]
    return [*outs, *(state for way in ways for state in way.states)] if forward.states else outs


def _both_layers(ctx: KerasLayer) -> tuple[LayerConfig, LayerConfig]:
    """Return the layer that goes forwards, and the one that goes backwards: the same one if none is named."""
    forward = ctx.layer_setting("layer")
    if ctx.setting("backward_layer") is not None:
        backward = ctx.layer_setting("backward_layer")
    else:
        backward = replace(forward, settings={**forward.settings, "go_backwards": True})
    for layer in (forward, backward):
        if layer.type not in OPERATORS or layer.type.startswith("CuDNN"):
            raise ctx.unsupported(f"a layer of class {layer.type!r} inside it is not supported")
    return forward, backward


def _at_once(ctx: KerasLayer, settings: Settings) -> list[Tensor]:
    """Return what both ways make as one operator."""
    weights = [_weights(ctx, settings, f"{side}_layer/cell", ctx.x) for side in ("forward", "backward")]
    outputs = recurrent(ctx, settings.cell, ctx.x, weights, units=settings.units)
    out = outputs.steps if settings.sequences else outputs.states[0]
    if _merge_mode(ctx) == "concat":
        return [out]
    return _merged(ctx, split(ctx, out, [settings.units, settings.units], -1))


def _merge_mode(ctx: KerasLayer) -> str | None:
    """Return how both ways are joined; None, which leaves them apart, is not the default."""
    mode: str | None = ctx.setting("merge_mode", None if "merge_mode" in ctx.config.settings else "concat")
    return mode


def _merged(ctx: KerasLayer, ends: Sequence[Tensor]) -> list[Tensor]:
    """Return both ways joined as ``merge_mode`` says; each by itself for None."""
    mode = _merge_mode(ctx)
    if mode is None:
        return list(ends)
    if mode == "concat":
        return [concat(ctx, ends, -1)]
    op_type = {"sum": "Add", "ave": "Mean", "mul": "Mul"}.get(str(mode))
    if op_type is None:
        raise ctx.unsupported(f"merge_mode={mode!r:.40} is not supported")
    return [ctx.broadcast(op_type, ends)]


def settings_of(ctx: KerasLayer) -> Settings:
    """Return what a recurrent layer says of itself, in ONNX's terms."""
    op_type, units = OPERATORS[ctx.type], ctx.positive("units")
    reset_after = op_type == "GRU" and ctx.boolean("reset_after", False)
    cell = _cell(ctx, op_type, reset_after=reset_after)
    num_rows = cell.num_gates * units
    settings = Settings(
        cell,
        units,
        ((2, num_rows) if reset_after else (num_rows,)) if ctx.boolean("use_bias", True) else None,
        ctx.boolean("return_sequences", False),
        ctx.boolean("return_state", False),
        ctx.boolean("go_backwards", False),
        ctx.boolean("zero_output_for_mask", False),
    )
    ctx.check_settings()  # of layers inside others too
    return settings


def _cell(ctx: KerasLayer, op_type: str, *, reset_after: bool) -> RecurrentCell:
    """Return what is computed at every step: ONNX has the activation of the gates before the layer's own."""
    names = []
    for setting, default in (("activation", "tanh"), ("recurrent_activation", "sigmoid")):
        value = ctx.setting(setting, default)
        value = value.get("config") if isinstance(value, dict) else value
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ctx.unsupported(f"{setting}={value!r:.40} is not supported in a recurrent layer")
        names.append(value)
    own, gates = names
    order = {"LSTM": [gates, own, own], "GRU": [gates, own], "RNN": [own]}[op_type]
    num_hard, num_linear = order.count("hard_sigmoid"), order.count("linear")
    if num_hard and num_linear:
        raise ctx.unsupported("activation=linear with hard_sigmoid is not supported")
    return RecurrentCell(
        op_type,
        activations=tuple(ACTIVATIONS[name] for name in order),
        alphas=(hard_slope(ctx.version),) * num_hard or (1.0,) * num_linear,
        betas=(0.5,) * num_hard,
        linear_before_reset=reset_after,
    )


def _weights(ctx: KerasLayer, settings: Settings, inside: str, x: Tensor) -> Weights:
    columns = settings.cell.num_gates * settings.units
    kernel = ctx.parameter("kernel", (ctx.size(-1, x), columns), inside=inside)
    state = ctx.parameter("recurrent_kernel", (settings.units, columns), inside=inside)
    if settings.bias is None:
        return Weights(kernel, state)
    return Weights(kernel, state, ctx.parameter("bias", settings.bias, role="bias", inside=inside))


RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN"})

SAME_FOR_ALL = frozenset({"Dense", "Activation", "Dropout", "ReLU", "LeakyReLU", "LayerNormalization"})
"""Layers that work on the last axis alone: every step of a sequence is the same to them."""


@layer_reader("TimeDistributed")
def time_distributed(ctx: KerasLayer) -> Tensor:
    """A layer on every step of a sequence by itself."""
    layer = ctx.layer_setting("layer")
    if layer.type not in READERS or layer.type in {"TimeDistributed", "Bidirectional", *RECURRENT}:
        raise ctx.unsupported(f"a layer of class {layer.type!r} inside it is not supported")
    if layer.type in SAME_FOR_ALL:
        return read_layer(ctx.inner(layer, [ctx.x], inside="layer"))[0]
    steps, *sizes = ctx.sizes(range(1, ctx.rank()))
    every_step = reshape(ctx, ctx.x, [None, *sizes])
    outputs = read_layer(ctx.inner(layer, [every_step], inside="layer"))[0]
    return reshape(ctx, outputs, [None, steps, *ctx.sizes(range(1, ctx.rank(outputs)), outputs)])
