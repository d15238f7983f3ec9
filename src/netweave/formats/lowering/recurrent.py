"""Recurrent layers as ONNX's LSTM, GRU and RNN: one layer, or several on top of each other.

T steps, N examples, H hidden units, D directions, G gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.lowering.recurrent_weights import ONNX_GATES

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.lowering.context import LayerContext

DEFAULT_ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
"""What ONNX applies without ``activations``: to the gates, the candidate, and the cell of an LSTM."""


@dataclass(frozen=True, slots=True)
class RecurrentCell:
    """The computation of a recurrent layer at each step, in ONNX's terms.

    Attributes:
        op_type: ``LSTM``, ``GRU`` or ``RNN``.
        activations: ONNX's names for one direction; empty for ``DEFAULT_ACTIVATIONS``.
        alphas: ``activation_alpha`` of one direction.
        betas: ``activation_beta`` of one direction.
        linear_before_reset: Whether a GRU applies its reset gate after the product with the state.
    """

    op_type: str
    activations: tuple[str, ...] = ()
    alphas: tuple[float, ...] = ()
    betas: tuple[float, ...] = ()
    linear_before_reset: bool = False

    @property
    def num_gates(self) -> int:
        """Number of gates, and so of matrices of the input."""
        return len(ONNX_GATES[self.op_type])

    @property
    def num_states(self) -> int:
        """Number of states: an LSTM has the cell beside the output."""
        return 2 if self.op_type == "LSTM" else 1

    def attributes(self, hidden_size: int, num_directions: int) -> dict[str, Any]:
        """Return the attributes of the ONNX node; what is ONNX's default is left out."""
        attributes: dict[str, Any] = {"hidden_size": hidden_size}
        if num_directions == 2:
            attributes["direction"] = "bidirectional"
        if self.activations not in {(), DEFAULT_ACTIVATIONS[self.op_type]}:
            attributes["activations"] = [*self.activations] * num_directions
        if self.alphas:
            attributes["activation_alpha"] = [*self.alphas] * num_directions
        if self.betas:
            attributes["activation_beta"] = [*self.betas] * num_directions
        if self.linear_before_reset:
            attributes["linear_before_reset"] = 1
        return attributes


CUDNN_CELLS = {
    "lstm": RecurrentCell("LSTM"),
    "gru": RecurrentCell("GRU", linear_before_reset=True),
    "rnn_tanh": RecurrentCell("RNN"),
    "rnn_relu": RecurrentCell("RNN", activations=("Relu",)),
}
"""The cells of cuDNN, under the names that MXNet and TensorFlow give them."""


Weights = Sequence["ir.Value | None"]
"""ONNX's W (D, G * H, features), R (D, G * H, H) and B (D, 2 * G * H); None for no bias."""


def without_state_bias(ctx: LayerContext, biases: Sequence[ir.Value], num_rows: int) -> ir.Value:
    """Return ONNX's B, (1, 2 * G * H), of a direction whose framework has no bias of the state.

    Args:
        ctx: The layer.
        biases: Biases of the input, (1, G * H) in all; none for zeros.
        num_rows: G * H.
    """
    num_zeros = num_rows if biases else 2 * num_rows
    return ctx.concat([*biases, ctx.constant(np.zeros((1, num_zeros)))], 1)


def recurrent_node(
    ctx: LayerContext,
    cell: RecurrentCell,
    x: ir.Value,
    weights: Weights,
    *,
    hidden_size: int,
    num_directions: int = 1,
    lengths: ir.Value | None = None,
    states: Sequence[ir.Value | None] = (),
) -> tuple[ir.Value, tuple[ir.Value, ...]]:
    """Add ONNX's node of one layer, and return its outputs (T, D, N, H) and its last states (D, N, H).

    Args:
        ctx: The layer.
        cell: What it computes.
        x: The sequence (T, N, features).
        weights: W, R and B.
        hidden_size: H.
        num_directions: D.
        lengths: Steps of each example; None where all have all steps.
        states: First states (D, N, H): of the output, then of the cell; None for zeros.
    """
    inputs = [x, *weights, lengths, *states]
    while inputs[-1] is None:
        inputs.pop()
    outputs = ctx.add_many(
        cell.op_type, inputs, cell.attributes(hidden_size, num_directions), outputs=1 + cell.num_states
    )
    return outputs[0], outputs[1:]


def merge_directions(
    ctx: LayerContext, sequence: ir.Value, width: int, *, batch_first: bool = False
) -> ir.Value:
    """Return ONNX's outputs (T, D, N, H) as frameworks have them: (T, N, D * H), or (N, T, D * H).

    Args:
        ctx: The layer.
        sequence: The outputs.
        width: D * H.
        batch_first: Whether the batch comes before the steps.
    """
    perm = [2, 0, 1, 3] if batch_first else [0, 2, 1, 3]
    return ctx.reshape(ctx.transpose(sequence, perm), [0, 0, width])


def stacked_layers(
    ctx: LayerContext,
    cell: RecurrentCell,
    x: ir.Value,
    weights: Sequence[Weights],
    *,
    hidden_size: int,
    num_directions: int = 1,
    lengths: ir.Value | None = None,
    states: Sequence[ir.Value | None] = (),
    dropout: float = 0.0,
) -> tuple[ir.Value, list[ir.Value]]:
    """Add layers of one kind on top of each other, as cuDNN does: each reads the outputs of both directions.

    Args:
        ctx: The layer, or operator, of the source.
        cell: What each computes.
        x: The sequence (T, N, features).
        weights: W, R and B of each layer.
        hidden_size: H.
        num_directions: D.
        lengths: Steps of each example; None where all have all steps.
        states: First states of all layers, (layers * D, N, H): of the output, then of the cell; None for
            zeros.
        dropout: Share of the elements dropped between two layers in training.

    Returns:
        The outputs (T, N, D * H), and the last states (layers * D, N, H).
    """
    num_layers = len(weights)
    first = [_states_of_layers(ctx, state, num_layers, num_directions) for state in states]
    last: list[Sequence[ir.Value]] = []
    for layer in range(num_layers):
        if layer and dropout:
            x = ctx.add("Dropout", [x, ctx.scalar(dropout, x)])
        sequence, layer_states = recurrent_node(
            ctx,
            cell,
            x,
            weights[layer],
            hidden_size=hidden_size,
            num_directions=num_directions,
            lengths=lengths,
            states=[state[layer] for state in first],
        )
        x = merge_directions(ctx, sequence, num_directions * hidden_size)
        last.append(layer_states)
    return x, [ctx.concat(each, 0) for each in zip(*last, strict=True)]


def _states_of_layers(
    ctx: LayerContext, state: ir.Value | None, num_layers: int, num_directions: int
) -> Sequence[ir.Value | None]:
    if state is None or num_layers == 1:
        return [state] * num_layers
    sizes = ctx.integers([num_directions] * num_layers)
    return ctx.add_many("Split", [state, sizes], {"axis": 0}, outputs=num_layers)
