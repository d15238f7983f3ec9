"""A recurrent node that is being written: what frameworks lack, its activations, its arrays by direction.

T steps, N examples, H hidden units, D directions, G gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.recurrent import DEFAULT_ACTIVATIONS
from netweave.formats.lowering.recurrent_weights import reorder_gates

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.files.node_writer import GraphNode

FIRST_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""


class RecurrentNode:
    """An LSTM, GRU or RNN as a framework may write it.

    Args:
        node: The node.
        framework: Whose order the gates will have: a key of ``GATE_ORDERS``.
        target: The framework as messages name it.
        resets_after: Whether its GRU has the reset gate behind the product alone.

    Raises:
        NotWritable: It has something that no framework has: lengths, peepholes, clipped gates.
    """

    def __init__(self, node: GraphNode, framework: str, *, target: str, resets_after: bool) -> None:
        self.node = node
        self.kind = node.op_type
        self.hidden_size = int(node.get("hidden_size"))
        self.direction = str(node.get("direction", "forward"))
        self.num_directions = 2 if self.direction == "bidirectional" else 1
        self._framework = framework
        resets_before = self.kind == "GRU" and not node.get("linear_before_reset", 0)
        reasons = {
            f"its gates reset before the product, and {target}'s behind it": resets_before and resets_after,
            "its sequences have lengths": node.has(4),
            "it has peepholes": node.has(7),
            "it has the batch first by its layout": node.get("layout", 0) != 0,
            "its gates are clipped or coupled": "clip" in node.attributes
            or bool(node.get("input_forget", 0)),
        }
        for reason, applies in reasons.items():
            if applies:
                raise NotWritable(reason)

    @property
    def columns(self) -> int:
        """Size of the last axis of a sequence that has its directions joined: D * H."""
        return self.num_directions * self.hidden_size

    def require_all_states(self) -> None:
        """Reject an LSTM of which one first state is given and the other omitted."""
        if self.kind == "LSTM" and self.node.has(5) != self.node.has(6):
            raise NotWritable("one of its first states is omitted")

    def activations(self, direction: int) -> list[str]:
        """Return ONNX's names of the activations of a direction: of the gates, the candidate and the cell."""
        default = DEFAULT_ACTIVATIONS[self.kind]
        # ONNX's default for RNN names two, also where there is one direction
        names = list(self.node.attributes.get("activations") or default * self.num_directions)
        count = len(default)
        return [name.capitalize() for name in names[direction * count : (direction + 1) * count]]

    def nonlinearity(self) -> str:
        """Return ``tanh``, or ``relu`` of an RNN.

        Raises:
            NotWritable: It has other activations than cuDNN's.
        """
        names = [name for number in range(self.num_directions) for name in self.activations(number)]
        if self.kind == "RNN" and set(names) in ({"Relu"}, {"Tanh"}):
            return names[0].lower()
        if tuple(names) != DEFAULT_ACTIVATIONS[self.kind] * self.num_directions:
            raise NotWritable(f"its activations are {', '.join(names)}")
        return "tanh"

    def cudnn_mode(self) -> str:
        """Return cuDNN's name of the cell: a key of ``CUDNN_CELLS``."""
        nonlinearity = self.nonlinearity()
        return f"rnn_{nonlinearity}" if self.kind == "RNN" else self.kind.lower()

    def matrix(self, index: int, direction: int) -> Callable[[], np.ndarray]:
        """Return the function that loads a matrix of a direction, (G * H, columns), with the gates reordered.

        Args:
            index: 1 for the weights of the input, 2 for those of the state.
            direction: 0, or 1 for the one backwards.
        """
        load = self.node.lazy_array(index)
        return lambda: self._reordered(load()[direction])

    def bias(self, direction: int, *, half: int) -> Callable[[], np.ndarray]:
        """Return the function that loads a bias of a direction, (G * H,), with the gates reordered.

        Args:
            direction: 0, or 1 for the one backwards.
            half: 0 for the bias of the input, 1 for that of the state.
        """
        load = self.node.lazy_array(3)
        return lambda: self._reordered(np.split(load()[direction], 2)[half])

    def _reordered(self, array: np.ndarray) -> np.ndarray:
        return reorder_gates(array, self.kind, source="onnx", target=self._framework)
