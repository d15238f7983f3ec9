"""Recurrent layers around cells of their own, and those that convolve (keras/layers/rnn)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.layers.recurrent import run, settings_of
from netweave.formats.keras.registry import layer_reader
from netweave.formats.keras.weights import snake_case
from netweave.formats.lowering.channels_last.axes import concat, drop, flip, split, widen
from netweave.formats.lowering.channels_last.windows import PaddedWindow, convolution

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor

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
