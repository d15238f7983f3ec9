"""LSTM, GRU and RNN as MXNet's fused operator, whose weights are one packed array.

T steps, N examples, H hidden units, D directions. Packed are, for each direction, the weights of the input
and those of the state, and after all weights the two biases of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.sequences import by_batch, joined
from netweave.formats.mxnet.writer.table import MXNetNode, writes
from netweave.symbol import group

if TYPE_CHECKING:
    from netweave.symbol import Symbol

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""MXNet's gates in their order (i f c o, and r z n) by their number in ONNX (i o f c, and z r h)."""

_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}

_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""


@writes("LSTM", "GRU", "RNN")
def recurrent(node: MXNetNode) -> Symbol:
    """One layer, of one direction or of both; backwards alone is a sequence that is turned, and back."""
    _check(node)
    direction, hidden = node.get("direction", "forward"), int(node.get("hidden_size"))
    directions = 2 if direction == "bidirectional" else 1
    x = node.symbol(0)
    is_backward, num_outputs = direction == "reverse", len(node.outputs)
    if is_backward:
        x = node.make_beside("turned", "SequenceReverse", x)
    made = node.make(
        "RNN",
        x,
        _packed(node),
        *_first_states(node, (directions, node.shape(0)[1] or 0, hidden)),
        mode=_mode(node, directions),
        state_size=hidden,
        num_layers=1,
        **({"bidirectional": True} if directions == 2 else {}),
        **({"state_outputs": True} if num_outputs > 1 else {}),
    )
    steps, states = made[0], [made[number] for number in range(1, num_outputs)]
    if is_backward:
        steps = node.make("SequenceReverse", steps)
    sequence = _sequence(node, steps, directions, hidden)
    return group([sequence, *states]) if states else sequence


def _check(node: MXNetNode) -> None:
    """Refuse what MXNet's operator has not."""
    reasons = {
        "its gates reset before the product, and MXNet's behind it": node.op_type == "GRU"
        and not node.get("linear_before_reset", 0),
        "its sequences have lengths": node.has(4),
        "it has peepholes": node.has(7),
        "it has the batch first by its layout": node.get("layout", 0) != 0,
        "its gates are clipped or coupled": "clip" in node.attributes or bool(node.get("input_forget", 0)),
    }
    for reason, applies in reasons.items():
        if applies:
            raise NotWritable(reason)


def _mode(node: MXNetNode, directions: int) -> str:
    """Return MXNet's word for the operator and its activations."""
    kind = node.op_type
    usual = _ACTIVATIONS[kind] * directions
    given = [name.lower() for name in node.get("activations") or usual]
    if kind == "RNN" and set(given) in ({"relu"}, {"tanh"}):
        return f"rnn_{given[0]}"
    if given != usual:
        raise NotWritable(f"its activations are {', '.join(given)}")
    return kind.lower()


def _packed(node: MXNetNode) -> Symbol:
    """Return the variable of all weights, then all biases, each with MXNet's order of gates."""
    gates = _GATES[node.op_type]

    def turned(array: np.ndarray) -> np.ndarray:
        parts = np.split(array, len(gates))
        return np.concatenate([parts[gate] for gate in gates]).reshape(-1)

    def packed() -> np.ndarray:
        matrices = zip(node.constant(1), node.constant(2), strict=True)
        weights = [turned(matrix) for pair in matrices for matrix in pair]
        if node.has(3):
            biases = [turned(half) for row in node.constant(3) for half in np.split(row, 2)]
        else:
            biases = [np.zeros(2 * len(node.constant(1)) * node.constant(1).shape[1], np.float32)]
        return np.concatenate([*weights, *biases])

    for index in (1, 2, 3):
        if node.has(index):
            node.lazy_array(index)  # refuses weights that are computed
    return node.stored("parameters", packed)


def _first_states(node: MXNetNode, shape: tuple[int, ...]) -> list[Symbol]:
    """Return the first states; those that are left out are zeros, of a size that MXNet finds."""
    wanted = _STATES if node.op_type == "LSTM" else _STATES[:1]
    return [
        node.symbol(index) if node.has(index) else node.make_beside("state", "_zeros", shape=shape)
        for index in wanted
    ]


def _sequence(node: MXNetNode, steps: Symbol, directions: int, hidden: int) -> Symbol:
    """Return ONNX's (T, D, N, H) from (T, N, D * H); what the net makes of it may be what MXNet gives."""
    output, columns = node.outputs[0], directions * hidden
    if (plain := joined(output, columns)) is not None:
        node.give(plain, steps)
    elif (turned := by_batch(output, columns)) is not None:
        node.give(turned, node.make("transpose", steps, axes=(1, 0, 2)))
    if directions == 1:
        return node.make("expand_dims", steps, axis=1)
    apart = node.make("Reshape", steps, shape=(0, 0, directions, hidden))
    return node.make("transpose", apart, axes=(0, 2, 1, 3))
