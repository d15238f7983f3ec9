"""Recurrent layers around cells of their own, and those that convolve (keras/layers/rnn)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from netweave.files.channels_last import windows
from netweave.files.channels_last.axes import concat, cut, drop, split, widen
from netweave.files.channels_last.elementwise import broadcast
from netweave.formats.keras.config import LayerConfig
from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.layers.recurrent import BACKWARDS, run, settings_of
from netweave.formats.keras.registry import layer_reader
from netweave.formats.keras.weights import snake_case

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.keras.call import Call

CELLS = {"GRUCell": "GRU", "LSTMCell": "LSTM", "SimpleRNNCell": "SimpleRNN"}
"""Cells, and the layer that does the same at every step."""

MAX_STEPS = 1000
"""More steps of convolutions are refused, since each is written out."""


@layer_reader("RNN")
def rnn(call: Call) -> list[Tensor]:
    """A cell, or several over each other, at every step."""
    held = _held(call, call.setting("cell"))
    if len(call.inputs) != 1:
        raise call.refuse("first states are not read")
    stacked = held.type == "StackedRNNCells"
    cells = [_held(call, cell) for cell in held.settings.get("cells") or ()] if stacked else [held]
    x, mask = call.x, call.mask(call.x)
    back, sequences = call.flag("go_backwards", False), call.flag("return_sequences", False)
    states: list[Tensor] = []
    counts: Counter[str] = Counter()
    for number, cell in enumerate(cells):
        if cell.type not in CELLS:
            raise call.refuse(f"around a cell of class {cell.type!r} it is not read")
        key = snake_case(cell.type)
        inside = f"cell/cells/{key}{f'_{counts[key]}' if counts[key] else ''}" if stacked else "cell"
        counts[key] += 1
        more = {
            "go_backwards": back and not number,
            "return_sequences": sequences or number < len(cells) - 1,
            "zero_output_for_mask": call.setting("zero_output_for_mask", False),
        }
        settings = settings_of(call, LayerConfig(cell.name, CELLS[cell.type], {**cell.settings, **more}))
        made = run(call, settings, x, mask, inside)
        x = made.steps if settings.sequences else made.states[0]
        mask = cut(call.writer, mask, BACKWARDS) if mask is not None and settings.backwards else mask
        states += made.states
    return [x, *states] if call.flag("return_state", False) else [x]


def _held(call: Call, held: Any) -> LayerConfig:
    if not isinstance(held, dict) or not isinstance(held.get("config"), dict):
        raise call.wrong("its 'cell' is no layer")
    return LayerConfig(str(held["config"].get("name", "")), str(held.get("class_name")), held["config"])


@layer_reader("ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
def convolutional_lstm(call: Call) -> list[Tensor]:
    """An LSTM over images: gates i, f, c, o, each a convolution of the input and one of the last output."""
    if call.mask(call.x) is not None or len(call.inputs) != 1:
        raise call.refuse("masks and first states are not read here")
    rank, last, writer = int(call.layer.type[-2]), call.is_last(), call.writer
    filters, sizes = call.count("filters"), call.per_axis("kernel_size", rank)
    (steps,) = writer.known(call.x, [1])
    channels = writer.known(call.x, [-1 if last else 2])[0]
    if not 0 < steps <= MAX_STEPS:
        raise call.refuse(f"runs {steps:,} steps; from 1 to {MAX_STEPS:,} are read")
    arrays = {
        "kernel": call.stored("kernel", (*sizes, channels, 4 * filters), inside="cell"),
        "recurrent": call.stored("recurrent_kernel", (*sizes, filters, 4 * filters), inside="cell"),
    }
    bias = (
        call.stored("bias", (4 * filters,), role="bias", inside="cell")
        if call.flag("use_bias", True)
        else None
    )
    ones, axis = [1] * rank, -1 if last else 1
    cell = hidden = None
    outs: list[Tensor] = []
    frames = split(writer, call.x, [1] * steps, 1)
    for frame in reversed(frames) if call.flag("go_backwards", False) else frames:
        gates = windows.convolution(
            writer,
            drop(writer, frame, [1]),
            arrays["kernel"],
            strides=call.per_axis("strides", rank),
            dilations=call.per_axis("dilation_rate", rank),
            padding=call.padding(),
            bias=bias,
            last=last,
        )
        if hidden is not None:
            before = windows.convolution(
                writer, hidden, arrays["recurrent"], strides=ones, dilations=ones, padding="SAME", last=last
            )
            gates = broadcast(writer, "Add", [gates, before])
        cell, hidden = _step(call, split(writer, gates, [filters] * 4, axis), cell)
        outs.append(hidden)
    assert hidden is not None
    assert cell is not None
    made = hidden
    if call.flag("return_sequences", False):
        made = concat(writer, [widen(writer, out, [1]) for out in outs], 1)
    return [made, hidden, cell] if call.flag("return_state", False) else [made]


def _step(call: Call, gates: list[Tensor], cell: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the cell and the output of one step; without a cell it starts from zeros."""
    writer = call.writer
    i, f, o = (activate(call, gates[number], "recurrent_activation") for number in (0, 1, 3))
    new = broadcast(writer, "Mul", [i, activate(call, gates[2], "activation")])
    state = new if cell is None else broadcast(writer, "Add", [broadcast(writer, "Mul", [f, cell]), new])
    return state, broadcast(writer, "Mul", [o, activate(call, state, "activation")])
