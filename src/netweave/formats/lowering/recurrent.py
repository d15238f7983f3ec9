"""Recurrent layers and their weights, as formats share them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.lowering.context import LayerContext
    from netweave.formats.lowering.parameters import Layout


# Every framework stores the matrices of a layer's gates one behind another, each in an order of its own. A
# stored array is brought into ONNX's order by its layout, so the net reads one initializer and no node has
# to cut the array at run time.
#
# H hidden units, D directions, G gates.

ONNX_GATES = {"LSTM": "iofc", "GRU": "zrh", "RNN": "h"}

GATE_ORDERS = {
    "onnx": ONNX_GATES,
    "cudnn": {"LSTM": "ifco", "GRU": "rzh", "RNN": "h"},
    "keras": {"LSTM": "ifco", "GRU": "zrh", "RNN": "h"},
}
"""The gates of a layer as its arrays hold them, by framework and ONNX's operator.

i is the input gate, f the forget gate, c the candidate of the cell and o the output gate; z is the update
gate, r the reset gate and h the candidate of the state. MXNet, PyTorch, Chainer and TensorFlow's CudnnRNN
have cuDNN's order (cudnnRNNMode_t).
"""


def gate_permutation(op_type: str, *, source: str, target: str) -> tuple[int, ...]:
    """Return for each gate in the target's order its number in the source's.

    Args:
        op_type: ``LSTM``, ``GRU`` or ``RNN``.
        source: A key of ``GATE_ORDERS``, as ``target`` is.
        target: The order that is wanted.

    >>> gate_permutation("LSTM", source="cudnn", target="onnx")
    (0, 3, 1, 2)
    """
    order = GATE_ORDERS[source][op_type]
    return tuple(order.index(gate) for gate in GATE_ORDERS[target][op_type])


def reorder_gates(array: np.ndarray, op_type: str, *, source: str, target: str, axis: int = 0) -> np.ndarray:
    """Return an array with the gates along one axis in another framework's order.

    Args:
        array: Weights or biases, (G * H) along the axis.
        op_type: As for ``gate_permutation``, and so are ``source`` and ``target``.
        source: The order of the array.
        target: The order that is wanted.
        axis: The axis of the gates.
    """
    permutation = gate_permutation(op_type, source=source, target=target)
    blocks = np.split(array, len(permutation), axis=axis)
    return np.concatenate([blocks[gate] for gate in permutation], axis=axis)


@dataclass(frozen=True, slots=True)
class GateLayouts:
    """Layouts from the arrays of one direction, as a framework stores them, to ONNX's.

    Attributes:
        op_type: ``LSTM``, ``GRU`` or ``RNN``.
        framework: Whose order the gates are in: a key of ``GATE_ORDERS``.
        hidden_size: H.
    """

    op_type: str
    framework: str
    hidden_size: int

    @property
    def num_rows(self) -> int:
        """G * H, the rows of ONNX's matrices."""
        return len(ONNX_GATES[self.op_type]) * self.hidden_size

    def ranges(self, width: int, start: int = 0) -> tuple[int, ...]:
        """Return begin and end of each gate in a flattened array, in ONNX's order.

        Args:
            width: Elements of each of the H rows: the columns of a matrix, 1 for a bias.
            start: Where the first gate begins.
        """
        size = self.hidden_size * width
        permutation = gate_permutation(self.op_type, source=self.framework, target="onnx")
        begins = [start + gate * size for gate in permutation]
        return tuple(bound for begin in begins for bound in (begin, begin + size))

    def matrix(self, columns: int, *, transposed: bool = False) -> Layout:
        """Return the layout to ONNX's (1, G * H, columns).

        Args:
            columns: Features of the input, or H.
            transposed: Whether the array is (columns, G * H), as TensorFlow's are, not (G * H, columns).
        """
        first: Layout = (("transpose", (1, 0)),) if transposed else ()
        return (*first, ("ranges", self.ranges(columns)), ("reshape", (1, self.num_rows, columns)))

    def bias(self, count: int = 1) -> Layout:
        """Return the layout to (1, count * G * H).

        Args:
            count: 2 for an array that holds the bias of the input and that of the state, else 1.
        """
        rows = self.num_rows
        ranges = tuple(bound for number in range(count) for bound in self.ranges(1, number * rows))
        return (("ranges", ranges), ("reshape", (1, count * rows)))


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The one array in which cuDNN keeps all weights of recurrent layers that are stacked.

    It holds, for each layer and direction, the matrix of the input and that of the state, and behind the
    last layer, in the same order, their biases (cudnnGetRNNLinLayerMatrixParams).

    Attributes:
        op_type: ``LSTM``, ``GRU`` or ``RNN``.
        features: Size of the input of the first layer.
        hidden_size: H.
        num_layers: How many layers are stacked.
        num_directions: D.
    """

    op_type: str
    features: int
    hidden_size: int
    num_layers: int = 1
    num_directions: int = 1

    @property
    def size(self) -> int:
        """Number of elements of the array."""
        return self._starts()[-1]

    def layouts(self) -> list[tuple[Layout, Layout, Layout]]:
        """Return for each layer the layouts to ONNX's W, R and B."""
        columns, starts, num_directions = self._columns(), self._starts(), self.num_directions
        gates = GateLayouts(self.op_type, "cudnn", self.hidden_size)
        rows = gates.num_rows

        def layout(parts: Sequence[int], shape: tuple[int, ...]) -> Layout:
            ranges = tuple(bound for part in parts for bound in gates.ranges(columns[part], starts[part]))
            return (("ranges", ranges), ("reshape", shape))

        layers = []
        for first in range(0, len(columns) // 2, 2 * num_directions):
            matrices = range(first, first + 2 * num_directions)
            biases = [len(columns) // 2 + number for number in matrices]
            layers.append(
                (
                    layout(matrices[0::2], (num_directions, rows, columns[first])),
                    layout(matrices[1::2], (num_directions, rows, self.hidden_size)),
                    layout(biases, (num_directions, 2 * rows)),
                )
            )
        return layers

    def _columns(self) -> list[int]:
        """Return the columns of each matrix, then those of each bias, in the order of the array."""
        widths = [self.features, *[self.num_directions * self.hidden_size] * (self.num_layers - 1)]
        matrices = [c for width in widths for c in [width, self.hidden_size] * self.num_directions]
        return matrices + [1] * len(matrices)

    def _starts(self) -> list[int]:
        rows = len(ONNX_GATES[self.op_type]) * self.hidden_size
        return [*accumulate((rows * columns for columns in self._columns()), initial=0)]


# T steps, N examples, H hidden units, D directions, G gates.

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
