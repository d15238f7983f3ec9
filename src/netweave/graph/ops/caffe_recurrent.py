"""Caffe's recurrent loops: ONNX's have no flag that says where in a batch a new sequence begins.

What does not depend on the state (the products with the inputs) is done outside, by standard operators.
``cont`` is 0 where a sequence begins and 1 where it goes on. Without initial states the loops begin with
zeros; Caffe keeps the last states for the next call, which ``cont`` then takes up or cuts off.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netweave.graph.operators import Attributes, Dim, Effect, operator

Arrays = Sequence[np.ndarray]
Shapes = Sequence[tuple[Dim, ...]]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * np.tanh(0.5 * x) + 0.5)


def _check_loop(shapes: Shapes, num_gates: int) -> tuple[Dim, Dim, Dim]:
    """Return steps, batch and hidden size."""
    gates, cont, weight = shapes[:3]
    if len(gates) != 3 or len(cont) != 2 or weight[0] != gates[2]:
        raise ValueError(
            f"gates ({', '.join(map(str, gates))}), cont ({', '.join(map(str, cont))}) and weights "
            f"({', '.join(map(str, weight))}), expected (T, N, {num_gates}H), (T, N) and ({num_gates}H, H)"
        )
    return gates[0], gates[1], weight[1]


def _lstm_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    steps, batch, hidden = _check_loop(shapes, 4)
    return [(steps, batch, hidden), (1, batch, hidden), (1, batch, hidden)]


@operator("CaffeLSTM", shapes=_lstm_shapes, effects=[Effect.STATEFUL])
def lstm(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe lstm_layer.cpp, lstm_unit_layer.cpp: gates i, f, o, g; all outputs, the last one, its cell.

    Inputs: what the gates get from outside (T, N, 4H), cont (T, N), weights (4H, H), and perhaps the
    initial output and cell, (1, N, H) each.
    """
    outside, cont, weight = inputs[:3]
    hidden = weight.shape[1]
    h, c = inputs[3:5] if len(inputs) > 3 else 2 * [np.zeros((1, outside.shape[1], hidden), outside.dtype)]
    h, c = h[0], c[0]
    found = []
    for gates, goes_on in zip(outside, cont[:, :, None], strict=True):
        i, f, o, g = np.split(gates + (goes_on * h) @ weight.T, 4, axis=1)
        c = goes_on * _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        found.append(h)
    return [np.stack(found).astype(outside.dtype), h[None], c[None]]


def _rnn_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    steps, batch, hidden = _check_loop(shapes, 1)
    return [(steps, batch, hidden), (1, batch, hidden)]


@operator("CaffeRNN", shapes=_rnn_shapes, effects=[Effect.STATEFUL])
def rnn(inputs: Arrays, attributes: Attributes) -> Arrays:
    """Caffe rnn_layer.cpp: the hidden states, and the last one.

    Inputs: what the states get from outside (T, N, H), cont (T, N), weights (H, H), and perhaps the
    initial state (1, N, H).
    """
    outside, cont, weight = inputs[:3]
    h = inputs[3][0] if len(inputs) > 3 else np.zeros(outside.shape[1:], outside.dtype)
    found = []
    for step, goes_on in zip(outside, cont[:, :, None], strict=True):
        h = np.tanh(step + (goes_on * h) @ weight.T)
        found.append(h)
    return [np.stack(found).astype(outside.dtype), h[None]]
