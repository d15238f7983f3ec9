"""LSTM, GRU and RNN as MXNet's fused operator, whose weights are one packed array.

T steps, N examples, H hidden units, D directions. Packed are, for each direction, the weights of the input
and those of the state, and after all weights the two biases of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.sequences import by_batch, joined
from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, written
from netweave.symbol import group

if TYPE_CHECKING:
    from netweave.symbol import Symbol

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""MXNet's gates in their order (i f c o, and r z n) by their number in ONNX (i o f c, and z r h)."""

_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}

_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""


@written("LSTM", "GRU", "RNN")
def recurrent(call: Call) -> Symbol:
    """One layer, of one direction or of both; backwards alone is a sequence that is turned, and back."""
    _check(call)
    direction, hidden = call.get("direction", "forward"), int(call.get("hidden_size"))
    directions = 2 if direction == "bidirectional" else 1
    x = call.symbol(0)
    is_backward, num_outputs = direction == "reverse", len(call.node.outputs)
    if is_backward:
        x = call.make_beside("turned", "SequenceReverse", x)
    made = call.make(
        "RNN",
        x,
        _packed(call),
        *_first_states(call, (directions, call.shape(0)[1] or 0, hidden)),
        mode=_mode(call, directions),
        state_size=hidden,
        num_layers=1,
        **({"bidirectional": True} if directions == 2 else {}),
        **({"state_outputs": True} if num_outputs > 1 else {}),
    )
    steps, states = made[0], [made[number] for number in range(1, num_outputs)]
    if is_backward:
        steps = call.make("SequenceReverse", steps)
    sequence = _sequence(call, steps, directions, hidden)
    return group([sequence, *states]) if states else sequence


def _check(call: Call) -> None:
    """Refuse what MXNet's operator has not."""
    reasons = {
        "its gates reset before the product, and MXNet's behind it": call.node.op_type == "GRU"
        and not call.get("linear_before_reset", 0),
        "its sequences have lengths": call.has(4),
        "it has peepholes": call.has(7),
        "it has the batch first by its layout": call.get("layout", 0) != 0,
        "its gates are clipped or coupled": "clip" in call.attributes or bool(call.get("input_forget", 0)),
    }
    for reason, applies in reasons.items():
        if applies:
            raise Refused(reason)


def _mode(call: Call, directions: int) -> str:
    """Return MXNet's word for the operator and its activations."""
    kind = call.node.op_type
    usual = _ACTIVATIONS[kind] * directions
    given = [name.lower() for name in call.get("activations") or usual]
    if kind == "RNN" and set(given) in ({"relu"}, {"tanh"}):
        return f"rnn_{given[0]}"
    if given != usual:
        raise Refused(f"its activations are {', '.join(given)}")
    return kind.lower()


def _packed(call: Call) -> Symbol:
    """Return the variable of all weights, then all biases, each with MXNet's order of gates."""
    gates = _GATES[call.node.op_type]

    def turned(array: np.ndarray) -> np.ndarray:
        parts = np.split(array, len(gates))
        return np.concatenate([parts[gate] for gate in gates]).reshape(-1)

    def packed() -> np.ndarray:
        matrices = zip(call.constant(1), call.constant(2), strict=True)
        weights = [turned(matrix) for pair in matrices for matrix in pair]
        if call.has(3):
            biases = [turned(half) for row in call.constant(3) for half in np.split(row, 2)]
        else:
            biases = [np.zeros(2 * len(call.constant(1)) * call.constant(1).shape[1], np.float32)]
        return np.concatenate([*weights, *biases])

    for index in (1, 2, 3):
        if call.has(index):
            call.lazily(index)  # refuses weights that are computed
    return call.stored("parameters", packed)


def _first_states(call: Call, shape: tuple[int, ...]) -> list[Symbol]:
    """Return the first states; those that are left out are zeros, of a size that MXNet finds."""
    wanted = _STATES if call.node.op_type == "LSTM" else _STATES[:1]
    return [
        call.symbol(index) if call.has(index) else call.make_beside("state", "_zeros", shape=shape)
        for index in wanted
    ]


def _sequence(call: Call, steps: Symbol, directions: int, hidden: int) -> Symbol:
    """Return ONNX's (T, D, N, H) from (T, N, D * H); what the net makes of it may be what MXNet gives."""
    output, columns = call.node.outputs[0], directions * hidden
    if (plain := joined(output, columns)) is not None:
        call.give(plain, steps)
    elif (turned := by_batch(output, columns)) is not None:
        call.give(turned, call.make("transpose", steps, axes=(1, 0, 2)))
    if directions == 1:
        return call.make("expand_dims", steps, axis=1)
    apart = call.make("Reshape", steps, shape=(0, 0, directions, hidden))
    return call.make("transpose", apart, axes=(0, 2, 1, 3))
