"""Recurrent layers and masks of Keras."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.context import READERS, KerasLayer, layer_reader, read_layer
from netweave.formats.keras.layers.elementwise import activate, hard_slope, input_dropout
from netweave.formats.keras.weights import snake_case
from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.channels_last.layer import concat, drop, flip, reduce, reshape, split, widen
from netweave.formats.lowering.channels_last.windows import (
    Outputs,
    PaddedWindow,
    Weights,
    convolution,
    recurrent,
)
from netweave.formats.lowering.recurrent import RecurrentCell

# A mask is True at the steps of an example that count (batch, time). A recurrent layer keeps its state over
# a step that does not: here the steps that count are brought together, run as far as they go, and spread
# again.

KEEPS_MASK = frozenset(
    {
        "Activation",
        "ActivityRegularization",
        "AlphaDropout",
        "BatchNormalization",
        "Dense",
        "Dropout",
        "ELU",
        "GaussianDropout",
        "GaussianNoise",
        "GroupNormalization",
        "Identity",
        "LayerNormalization",
        "LeakyReLU",
        "Normalization",
        "PReLU",
        "ReLU",
        "Rescaling",
        "Softmax",
        "SpatialDropout1D",
        "TimeDistributed",
        "UnitNormalization",
    }
)
"""Layers whose output has the mask of their input (``supports_masking``); others drop it or say their own."""


@layer_reader("Masking")
def masking(ctx: KerasLayer) -> Tensor:
    """Steps of which every number is ``mask_value`` do not count, and are 0."""
    x = ctx.x
    differs = ctx.as_type(_differs(ctx, x, ctx.number("mask_value", 0.0)), ir.DataType.INT64)
    kept = reduce(ctx, "ReduceMax", differs, [-1], keep=True)
    zeroed = ctx.broadcast("Mul", [x, ctx.as_type(kept, x.value.dtype or ir.DataType.FLOAT)])
    return ctx.masked(zeroed, ctx.as_type(drop(ctx, kept, [-1]), ir.DataType.BOOL))


def nonzero(ctx: KerasLayer, x: Tensor) -> Tensor:
    """Return the mask of an embedding: number 0 stands for no word."""
    return _differs(ctx, x, 0.0)


def _differs(ctx: KerasLayer, x: Tensor, number: float) -> Tensor:
    return ctx.unary("Not", ctx.broadcast("Equal", [x, ctx.scalar(number, x)]))


@dataclass(frozen=True, slots=True)
class Packed:
    """A sequence with the steps that count at its begin.

    Attributes:
        x: The sequence (batch, time, features).
        lengths: How many steps of each example count.
        places: Where each step of the source lies in it: the last one that counts, -1 before the first.
        mask: The mask as 0 and 1 (batch, time).
    """

    x: Tensor
    lengths: ir.Value
    places: ir.Value
    mask: ir.Value

    def spread(self, ctx: KerasLayer, steps: Tensor, *, zeros: bool) -> Tensor:
        """Return every step of the source from those that were run.

        Args:
            ctx: The layer.
            steps: The steps (batch, time, units).
            zeros: Whether a step that does not count is 0; else it is what the one before was.
        """
        zero = ctx.scalar(0, self.places)
        nearest = _picked(ctx, steps, ctx.add("Max", [self.places, zero]))
        begun = ctx.unary("Not", ctx.add("Less", [self.places, zero]))
        counts = ctx.as_type(self.mask, ir.DataType.BOOL) if zeros else begun
        column = ctx.unsqueeze(counts, [-1])
        return Tensor(ctx.add("Where", [column, nearest, ctx.scalar(0.0, nearest)]))


def pack(ctx: KerasLayer, x: Tensor, mask: Tensor) -> Packed:
    """Return a sequence with the steps that count at its begin, in their order.

    The steps are sorted by their number, to which those that do not count add the number of all steps: so
    they come last, and the order of the others stays.
    """
    time = ctx.constant(np.asarray(1), dtype=np.int64)
    counts = ctx.source(ctx.as_type(mask, ir.DataType.INT64))
    one = ctx.scalar(1, counts)
    missing = ctx.add("Sub", [one, counts])
    numbers = ctx.add("CumSum", [ctx.add("Add", [counts, missing]), time], {"exclusive": 1})
    steps = ctx.add("Shape", [counts], {"start": 1, "end": 2})
    keys = ctx.add("Add", [numbers, ctx.add("Mul", [missing, steps])])
    order = ctx.add_many("TopK", [keys, steps], {"axis": 1, "largest": 0, "sorted": 1}, outputs=2)[1]
    total = ctx.add("ReduceSum", [counts, ctx.integers([1])], {"keepdims": 0})
    places = ctx.add("Sub", [ctx.add("CumSum", [counts, time]), one])
    lengths = ctx.source(ctx.as_type(total, ir.DataType.INT32))
    return Packed(Tensor(_picked(ctx, x, order)), lengths, places, counts)


def _picked(ctx: KerasLayer, x: Tensor, numbers: ir.Value) -> ir.Value:
    """Return steps of (batch, time, features) by their numbers (batch, time)."""
    return ctx.add("GatherND", [x, ctx.unsqueeze(numbers, [-1])], {"batch_dims": 1})


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


CELLS = {"GRUCell": "GRU", "LSTMCell": "LSTM", "SimpleRNNCell": "SimpleRNN"}
"""Cells, and the layer that does the same at every step."""

MAX_STEPS = 1000
"""More steps of convolutions are refused, since each is written out."""


@layer_reader("RNN")
def rnn(ctx: KerasLayer) -> list[Tensor]:
    """A cell, or several over each other, at every step."""
    if len(ctx.inputs) != 1:
        raise ctx.unsupported("initial states are not supported")
    cells = _cells(ctx)
    x, mask = ctx.x, ctx.mask(ctx.x)
    states: list[Tensor] = []
    for number, (cell, inside) in enumerate(cells):
        # A stacked cell reads every step of the one below it, which has turned them round already.
        more = {
            "go_backwards": ctx.boolean("go_backwards", False) and not number,
            "return_sequences": ctx.boolean("return_sequences", False) or number < len(cells) - 1,
            "zero_output_for_mask": ctx.setting("zero_output_for_mask", False),
        }
        layer = LayerConfig(cell.name, CELLS[cell.type], {**cell.settings, **more})
        settings = settings_of(ctx.inner(layer, [], inside=""))
        outputs = run(ctx, settings, x, mask, inside)
        x = outputs.steps if settings.sequences else outputs.states[0]
        mask = flip(ctx, mask, [1]) if mask is not None and settings.backwards else mask
        states += outputs.states
    return [x, *states] if ctx.boolean("return_state", False) else [x]


def _cells(ctx: KerasLayer) -> list[tuple[LayerConfig, str]]:
    """Return the cells from the lowest up, and the group of each one's arrays."""
    held = ctx.layer_setting("cell")
    if held.type != "StackedRNNCells":
        cells = [(held, "cell")]
    else:
        counts: Counter[str] = Counter()
        cells = []
        for each in held.settings.get("cells") or ():
            cell = ctx.layer_of("cell", each)
            key = snake_case(cell.type)
            cells.append((cell, f"cell/cells/{key}{f'_{counts[key]}' if counts[key] else ''}"))
            counts[key] += 1
    for cell, _ in cells:
        if cell.type not in CELLS:
            raise ctx.unsupported(f"a cell of class {cell.type!r} inside it is not supported")
    return cells


@layer_reader("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convolutional_lstm(ctx: KerasLayer) -> list[Tensor]:
    """An LSTM over images: gates i, f, c, o, each a convolution of the input and one of the last output."""
    if ctx.mask(ctx.x) is not None or len(ctx.inputs) != 1:
        raise ctx.unsupported("masks and initial states are not supported here")
    rank, last, filters = ctx.spatial_rank, ctx.is_last(), ctx.positive("filters")
    sizes, channels, steps = ctx.per_axis("kernel_size", rank), ctx.size(-1 if last else 2), ctx.size(1)
    if not 0 < steps <= MAX_STEPS:
        raise ctx.unsupported(f"runs {steps:,} steps; from 1 to {MAX_STEPS:,} are read")
    kernel = ctx.parameter("kernel", (*sizes, channels, 4 * filters), inside="cell")
    recurrent = ctx.parameter("recurrent_kernel", (*sizes, filters, 4 * filters), inside="cell")
    bias = ctx.optional_parameter("use_bias", "bias", (4 * filters,), role="bias", inside="cell")
    strides, dilations = ctx.per_axis("strides", rank), ctx.per_axis("dilation_rate", rank)
    window = PaddedWindow.of(sizes, strides, ctx.padding(), dilations)
    over_output = PaddedWindow.of(sizes, [1] * rank, "SAME")
    cell = hidden = None
    outs: list[Tensor] = []
    frames = split(ctx, ctx.x, [1] * steps, 1)
    for frame in reversed(frames) if ctx.boolean("go_backwards", False) else frames:
        gates = convolution(ctx, drop(ctx, frame, [1]), kernel, window, bias=bias, last=last)
        if hidden is not None:
            before = convolution(ctx, hidden, recurrent, over_output, last=last)
            gates = ctx.broadcast("Add", [gates, before])
        cell, hidden = _step(ctx, split(ctx, gates, [filters] * 4, -1 if last else 1), cell)
        outs.append(hidden)
    assert hidden is not None
    assert cell is not None
    out = hidden
    if ctx.boolean("return_sequences", False):
        out = concat(ctx, [widen(ctx, out, [1]) for out in outs], 1)
    return [out, hidden, cell] if ctx.boolean("return_state", False) else [out]


def _step(ctx: KerasLayer, gates: list[Tensor], cell: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the cell and the output of one step; without a cell it starts from zeros."""
    i, f, o = (activate(ctx, gates[number], "recurrent_activation") for number in (0, 1, 3))
    new = ctx.broadcast("Mul", [i, activate(ctx, gates[2], "activation")])
    state = new if cell is None else ctx.broadcast("Add", [ctx.broadcast("Mul", [f, cell]), new])
    return state, ctx.broadcast("Mul", [o, activate(ctx, state, "activation")])
