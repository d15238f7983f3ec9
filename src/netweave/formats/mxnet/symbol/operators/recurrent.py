"""Recurrent operators of MXNet, and CTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.recurrent import CUDNN_CELLS, PackedWeights, RecurrentCell, stacked_layers
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings


# The fused ``RNN`` has one packed array for all weights of all its layers, in cuDNN's order.


MAX_LAYERS = 1000
"""More layers are refused before their weights are laid out; no net has as many."""

UNREAD = ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max")


def _cell(settings: Settings) -> RecurrentCell:
    return CUDNN_CELLS[settings.choice("mode", tuple(CUDNN_CELLS))]


def _arguments_recurrent(settings: Settings) -> Sequence[str]:
    names = ["data", "parameters", "state"]
    if _cell(settings).num_states == 2:
        names.append("state_cell")
    if settings.flag("use_sequence_length", False):
        names.append("sequence_length")
    return names


def _num_outputs(settings: Settings) -> int:
    if not settings.flag("state_outputs", False):
        return 1
    return 1 + _cell(settings).num_states


@operator_reader(
    "RNN",
    arguments=_arguments_recurrent,
    outputs=("output", "state_output", "statecell_output"),
    count=_num_outputs,
)
def rnn(ctx: MXNetOperator) -> Sequence[ir.Value]:
    """Layers over a sequence (time, batch, features); outputs, and the last states if wanted."""
    settings = ctx.settings
    if any(settings.number(name, None) is not None for name in UNREAD) or ctx.has("sequence_length"):
        raise ctx.unsupported(
            "projected or clipped states and sequences of several lengths are not supported"
        )
    settings.ignore("lstm_state_clip_nan")
    cell = _cell(settings)
    hidden_size, num_layers = settings.count("state_size"), settings.count("num_layers")
    num_directions = 2 if settings.flag("bidirectional", False) else 1
    if num_layers > MAX_LAYERS:
        raise ctx.unsupported(f"num_layers={num_layers}; at most {MAX_LAYERS} are supported")
    x = ctx.input("data", batch_axis=1)
    packed = PackedWeights(cell.op_type, ctx.size(2, x), hidden_size, num_layers, num_directions)
    weights = [
        [ctx.parameter("parameters", (packed.size,), layout=layout) for layout in layouts]
        for layouts in packed.layouts()
    ]
    outputs, last = stacked_layers(
        ctx,
        cell,
        x,
        weights,
        hidden_size=hidden_size,
        num_directions=num_directions,
        states=_states(ctx, (num_layers * num_directions, None, hidden_size)),
        dropout=settings.number("p", 0.0),
    )
    return [outputs, *last] if settings.flag("state_outputs", False) else [outputs]


def _states(ctx: MXNetOperator, shape: tuple[int | None, ...]) -> list[ir.Value | None]:
    """Return the first states; None for zeros, which need no batch size then."""
    names = [name for name in ("state", "state_cell") if ctx.has(name)]
    states = [ctx.input(name, default=shape, batch_axis=1) for name in names]
    return [None if _is_zeros(state) else state for state in states]


def _is_zeros(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None or producer.op_type != "ConstantOfShape":
        return False
    fill = producer.attributes.get("value")
    return fill is None or not fill.as_tensor().numpy().any()


def _sequence_arguments(settings: Settings) -> Sequence[str]:
    used = settings.flag("use_sequence_length", False)
    return ("data", "sequence_length") if used else ("data",)


@operator_reader("SequenceReverse", arguments=_sequence_arguments)
def sequence_reverse(ctx: MXNetOperator) -> ir.Value:
    """Steps of (time, batch, ...) in reverse, the first ``sequence_length`` of them or all."""
    if (axis := ctx.settings.integer("axis", 0)) != 0:
        raise ctx.read_error(f"axis={axis}, expected 0")
    x = ctx.input("data", batch_axis=1)
    if ctx.has("sequence_length"):
        return ctx.add("ReverseSequence", [x, _lengths(ctx)], {"time_axis": 0, "batch_axis": 1})
    return ctx.slice(x, [-1], [-(2**63)], [0], [-1])


@operator_reader("SequenceMask", arguments=_sequence_arguments)
def sequence_mask(ctx: MXNetOperator) -> ir.Value:
    """``value`` in the place of all steps from ``sequence_length`` on."""
    axis = _time_axis(ctx)
    fill = ctx.settings.number("value", 0.0)
    x = ctx.input("data", batch_axis=1 - axis)
    if not ctx.has("sequence_length"):
        return x
    steps, rank = ctx.size(axis, x), ctx.rank(x)
    time = ctx.array(ctx.arange(steps).reshape(-1, *[1] * (rank - 1 - axis)))
    lengths = ctx.unsqueeze(_lengths(ctx), [a for a in range(rank) if a != 1 - axis])
    return ctx.add("Where", [ctx.add("Less", [time, lengths]), x, ctx.scalar(fill, x)])


@operator_reader("SequenceLast", arguments=_sequence_arguments)
def sequence_last(ctx: MXNetOperator) -> ir.Value:
    """The last step, or the one before ``sequence_length``."""
    axis = _time_axis(ctx)
    x = ctx.input("data", batch_axis=1 - axis)
    if not ctx.has("sequence_length"):
        return ctx.add("Gather", [x, ctx.array(np.asarray(-1, np.int64))], {"axis": axis})
    by_batch = x if axis == 1 else ctx.transpose(x, [1, 0, *range(2, ctx.rank(x))])
    last = ctx.add("Sub", [_lengths(ctx), ctx.integers([1])])
    return ctx.add("GatherND", [by_batch, ctx.unsqueeze(last, [1])], {"batch_dims": 1})


def _time_axis(ctx: MXNetOperator) -> int:
    axis = ctx.settings.integer("axis", 0)
    if axis not in {0, 1}:
        raise ctx.read_error(f"axis={axis}, expected 0 or 1")
    return axis


def _lengths(ctx: MXNetOperator) -> ir.Value:
    return ctx.cast(ctx.input("sequence_length", default=(None,)), ir.DataType.INT64)


LENGTHS = {"use_data_lengths": "data_lengths", "use_label_lengths": "label_lengths"}
"""Inputs that are there if a setting says so."""


def _arguments_ctc(settings: Settings) -> Sequence[str]:
    return ["data", "label", *(name for flag, name in LENGTHS.items() if settings.flag(flag, False))]


@operator_reader("CTCLoss", arguments=_arguments_ctc)
@operator_reader("ctc_loss", arguments=_arguments_ctc)
@operator_reader("_contrib_CTCLoss", arguments=_arguments_ctc)
@operator_reader("_contrib_ctc_loss", arguments=_arguments_ctc)
def ctc_loss(ctx: MXNetOperator) -> ir.Value:
    """A loss for each sequence, from scores of (steps, batch, classes)."""
    settings = ctx.settings
    attributes = {
        "blank_label": settings.choice("blank_label", ("first", "last"), "first"),
        **{flag: int(settings.flag(flag, False)) for flag in LENGTHS},
    }
    x = ctx.input("data", batch_axis=1)
    batch = ctx.shape(x)[1]
    values = [x, ctx.input("label")]
    values += [ctx.input(name, default=(batch,)) for flag, name in LENGTHS.items() if attributes[flag]]
    return ctx.add("CTCLoss", values, attributes, domain=DOMAIN)


@operator_reader("WarpCTC", arguments=("data", "label"))
def warp_ctc(ctx: MXNetOperator) -> ir.Value:
    """Softmax over rows, whose gradient is that of the loss: the plugin of MXNet before 1.0."""
    settings = ctx.settings
    attributes = {
        "input_length": settings.integer("input_length", 0),
        "label_length": settings.integer("label_length", 0),
    }
    if min(attributes.values()) < 1:
        raise ctx.read_error("input_length and label_length must be set, and be 1 or more")
    return ctx.add("CTCOutput", [ctx.x, ctx.input("label")], attributes, domain=DOMAIN)
