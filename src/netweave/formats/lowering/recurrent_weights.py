"""The stored arrays of recurrent layers: the order of gates in each framework, packed and single weights.

Every framework stores the matrices of a layer's gates one behind another, each in an order of its own. A
stored array is brought into ONNX's order by its layout, so the net reads one initializer and no node has to
cut the array at run time.

H hidden units, D directions, G gates.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.lowering.parameters import Layout

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
