"""Recurrent layers from the weights of TensorFlow and Keras: kernels are (features, gates * units)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.formats.lowering.channels_last.tensor import Operand, Stored, Tensor
from netweave.formats.lowering.recurrent import (
    RecurrentCell,
    merge_directions,
    recurrent_node,
    without_state_bias,
)
from netweave.formats.lowering.recurrent_weights import GateLayouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer


@dataclass(frozen=True, slots=True)
class Weights:
    """Stored arrays of one direction.

    Attributes:
        kernel: (features, gates * units).
        recurrent: (units, gates * units).
        bias: (gates * units,), or (2, gates * units) for the bias of the input and that of the state.
    """

    kernel: Stored
    recurrent: Stored
    bias: Stored | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a layer: every step as (batch, time, directions * units), and the last states."""

    steps: Tensor
    states: tuple[Tensor, ...]


def recurrent(
    ctx: ChannelsLastLayer,
    cell: RecurrentCell,
    x: Tensor,
    weights: Sequence[Weights],
    *,
    units: int,
    states: Sequence[Operand] = (),
    lengths: ir.Value | None = None,
) -> Outputs:
    """Add a recurrent layer over (batch, time, features).

    Args:
        ctx: The layer.
        cell: What it computes at every step.
        x: The sequence.
        weights: Arrays of each direction, with Keras's order of gates.
        units: Size of the state.
        states: First states (batch, units) in ONNX's order; none for zeros.
        lengths: Steps of each example; none where all have all steps.
    """
    gates, width = GateLayouts(cell.op_type, "keras", units), len(weights) * units
    matrices = [
        ctx.concat([ctx.in_layout(each, gates.matrix(each.shape[0], transposed=True)) for each in arrays], 0)
        for arrays in ([w.kernel for w in weights], [w.recurrent for w in weights])
    ]
    biases = [_bias(ctx, gates, w.bias) for w in weights] if any(w.bias for w in weights) else []
    sequence, last = recurrent_node(
        ctx,
        cell,
        ctx.transpose(ctx.source(x), [1, 0, 2]),
        (matrices[0], matrices[1], ctx.concat(biases, 0) if biases else None),
        hidden_size=units,
        num_directions=len(weights),
        lengths=lengths,
        states=[ctx.unsqueeze(state, [0]) for state in states],
    )
    steps = merge_directions(ctx, sequence, width, batch_first=True)
    ends = (ctx.reshape(ctx.transpose(state, [1, 0, 2]), [0, width]) for state in last)
    return Outputs(Tensor(steps), tuple(map(Tensor, ends)))


def _bias(ctx: ChannelsLastLayer, gates: GateLayouts, stored: Stored | None) -> ir.Value:
    """Return ONNX's (1, 2 * gates * units): the bias of the input, then that of the state."""
    if stored is not None and len(stored.shape) == 2:
        return ctx.in_layout(stored, gates.bias(2), role="bias")
    own = [] if stored is None else [ctx.in_layout(stored, gates.bias(), role="bias")]
    return without_state_bias(ctx, own, gates.num_rows)
