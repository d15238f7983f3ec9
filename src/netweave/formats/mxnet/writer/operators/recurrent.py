"""LSTM, GRU and RNN as MXNet's fused operator, whose weights are one packed array.

T steps, N examples, H hidden units, D directions. Packed are, for each direction, the weights of the input
and those of the state, and after all weights the two biases of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.sequences import by_batch, joined
from netweave.formats.lowering.nodes.recurrent import FIRST_STATES, RecurrentNode
from netweave.formats.mxnet.symbol import group
from netweave.formats.mxnet.writer.table import MXNetNode, writes

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol import Symbol


@writes("LSTM", "GRU", "RNN")
def recurrent(node: MXNetNode) -> Symbol:
    """One layer, of one direction or of both; backwards alone is a sequence that is turned, and back."""
    rnn = RecurrentNode(node, "cudnn", target="MXNet", resets_after=True)
    x, num_outputs = node.symbol(0), len(node.outputs)
    if rnn.direction == "reverse":
        x = node.make_beside("turned", "SequenceReverse", x)
    outputs = node.make(
        "RNN",
        x,
        _packed(node, rnn),
        *_first_states(node, (rnn.num_directions, node.shape(0)[1] or 0, rnn.hidden_size)),
        mode=rnn.cudnn_mode(),
        state_size=rnn.hidden_size,
        num_layers=1,
        **({"bidirectional": True} if rnn.num_directions == 2 else {}),
        **({"state_outputs": True} if num_outputs > 1 else {}),
    )
    steps, states = outputs[0], [outputs[number] for number in range(1, num_outputs)]
    if rnn.direction == "reverse":
        steps = node.make("SequenceReverse", steps)
    sequence = _sequence(node, steps, rnn)
    return group([sequence, *states]) if states else sequence


def _packed(node: MXNetNode, rnn: RecurrentNode) -> Symbol:
    """Return the variable of all weights, then all biases (cuDNN's packed array of one layer)."""
    directions = range(rnn.num_directions)
    arrays = [rnn.matrix(index, direction) for direction in directions for index in (1, 2)]
    if node.has(3):
        arrays += [rnn.bias(direction, half=half) for direction in directions for half in (0, 1)]
    else:
        num_rows = node.stored_shape(1)[1]
        arrays += [lambda: np.zeros(2 * rnn.num_directions * num_rows, np.float32)]
    return node.stored("parameters", lambda: np.concatenate([load().reshape(-1) for load in arrays]))


def _first_states(node: MXNetNode, shape: tuple[int, ...]) -> list[Symbol]:
    """Return the first states; those that are left out are zeros, of a size that MXNet finds."""
    wanted = FIRST_STATES if node.op_type == "LSTM" else FIRST_STATES[:1]
    return [
        node.symbol(index) if node.has(index) else node.make_beside("state", "_zeros", shape=shape)
        for index in wanted
    ]


def _sequence(node: MXNetNode, steps: Symbol, rnn: RecurrentNode) -> Symbol:
    """Return ONNX's (T, D, N, H) from (T, N, D * H); what the net makes of it may be what MXNet gives."""
    output = node.outputs[0]
    if (plain := joined(output, rnn.columns)) is not None:
        node.give(plain, steps)
    elif (by_batch_value := by_batch(output, rnn.columns)) is not None:
        node.give(by_batch_value, node.make("transpose", steps, axes=(1, 0, 2)))
    if rnn.num_directions == 1:
        return node.make("expand_dims", steps, axis=1)
    apart = node.make("Reshape", steps, shape=(0, 0, rnn.num_directions, rnn.hidden_size))
    return node.make("transpose", apart, axes=(0, 2, 1, 3))
