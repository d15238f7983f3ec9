"""Recurrent layers (tensorflow/lite/kernels/unidirectional_sequence_lstm.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Stored, Tensor
from netweave.formats.lowering.channels_last.recurrent import Weights, recurrent
from netweave.formats.lowering.recurrent import RecurrentCell
from netweave.formats.tensorflow.lite.registry import lite_operator

if TYPE_CHECKING:
    from netweave.formats.tensorflow.lite.context import LiteOperator

KERNELS, RECURRENT, BIASES = range(1, 5), range(5, 9), range(12, 16)
"""Inputs by gate: the input's, the forget gate's, the cell's, the output's."""

FURTHER = {9: "peepholes", 10: "peepholes", 11: "peepholes", 16: "a projection", 20: "a layer normalisation"}
"""Optional inputs that are not read."""

STATES = (18, 19)
"""Inputs that hold the states between calls, zeros at first."""


@lite_operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(ctx: LiteOperator) -> Tensor:
    """Every step's output, from states of zeros."""
    for index, what in FURTHER.items():
        if ctx.optional(index) is not None:
            raise ctx.unsupported(f"has {what}, which is not supported")
    activation = ctx.string("fused_activation_function", "NONE")
    if activation != "TANH" or ctx.number("cell_clip", 0.0) or ctx.number("proj_clip", 0.0):
        clip = ctx.number("cell_clip", 0.0)
        raise ctx.unsupported(f"computes with {activation} and clips cells by {clip:g}; expected TANH and 0")
    if ctx.optional(KERNELS[0]) is None:
        raise ctx.unsupported("couples its input gate to the forget gate, which is not supported")
    units = ctx.size(0, ctx.operand(KERNELS[0]))
    weights = Weights(
        _joined(ctx, KERNELS, "kernel").transposed((1, 0)),
        _joined(ctx, RECURRENT, "recurrent").transposed((1, 0)),
        _joined(ctx, BIASES, "bias"),
    )
    time_major = bool(ctx.setting("time_major", False))
    x = ctx.tensor(ctx.x)
    steps = recurrent(
        ctx, RecurrentCell("LSTM"), _swapped(ctx, x) if time_major else x, [weights], units=units
    )
    return _swapped(ctx, steps.steps) if time_major else steps.steps


def _joined(ctx: LiteOperator, indices: range, name: str) -> Stored:
    """Return the arrays of all gates as one, in Keras's order, which is TFLite's."""
    arrays = [ctx.stored(index, "a weight of a gate") for index in indices]
    values = [array.array for array in arrays if array.array is not None]
    if len({array.shape for array in arrays}) > 1:
        raise ctx.shape_error(f"has gates of {[array.shape for array in arrays]}, expected all alike")
    joined = np.concatenate(values)
    return Stored.parameter(
        f"{ctx.node.name}/{name}", joined, joined.shape, "bias" if name == "bias" else "weight"
    )


def _swapped(ctx: LiteOperator, x: Tensor) -> Tensor:
    return Tensor(ctx.transpose(ctx.source(x), [1, 0, 2]))
