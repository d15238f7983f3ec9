"""Recurrent layers and connectionist temporal classification."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from netweave.errors import RunError
from netweave.graph.operators import Attributes, Dim, Effect, operator
from netweave.graph.ops.losses import softmax

# What does not depend on the state (the products with the inputs) is done outside, by standard operators.
# ``cont`` is 0 where a sequence begins and 1 where it goes on. Without initial states the loops begin with
# zeros; Caffe keeps the last states for the next call, which ``cont`` then takes up or cuts off.

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
    steps = []
    for gates, goes_on in zip(outside, cont[:, :, None], strict=True):
        i, f, o, g = np.split(gates + (goes_on * h) @ weight.T, 4, axis=1)
        c = goes_on * _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        steps.append(h)
    return [np.stack(steps).astype(outside.dtype), h[None], c[None]]


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
    hidden = []
    for step, goes_on in zip(outside, cont[:, :, None], strict=True):
        h = np.tanh(step + (goes_on * h) @ weight.T)
        hidden.append(h)
    return [np.stack(hidden).astype(outside.dtype), h[None]]


# Each step gives scores for classes, one of which is blank. A label is spelt by every path through the
# steps that becomes the label when repeats are joined and blanks are left out. Sums over paths are kept as
# logarithms in float64.

Gradients = Sequence[np.ndarray | None]


def spelt(probabilities: np.ndarray, label: np.ndarray, blank: int) -> tuple[float, np.ndarray]:
    """Return the loss of one sequence, and its gradient by the scores before the softmax.

    Both are 0 for a label that the steps are too few for, as in warp-ctc (``CpuCTC::cost_and_grad_kernel``).

    Args:
        probabilities: (steps, classes), each step a softmax.
        label: The classes to be spelt, without blanks.
        blank: The class of blank.
    """
    steps, classes = probabilities.shape
    repeats = int(np.count_nonzero(label[1:] == label[:-1]))
    if len(label) + repeats > steps:
        return 0.0, np.zeros_like(probabilities)
    states = np.full(2 * len(label) + 1, blank)
    states[1::2] = label
    can_skip = np.zeros(len(states), bool)  # from a label to the next one without a blank between
    can_skip[3::2] = label[1:] != label[:-1]
    with np.errstate(divide="ignore"):
        emitted = np.log(probabilities.astype(np.float64))[:, states]
    forward = _summed(emitted, can_skip)
    # backwards the same sum runs over reversed steps and states; a skip ends where it began before
    backward = _summed(emitted[::-1, ::-1], np.concatenate([np.zeros(2, bool), can_skip[:1:-1]]))[::-1, ::-1]
    total = np.logaddexp.reduce(forward[-1, -2:])
    if np.isneginf(total):
        return np.inf, np.zeros_like(probabilities)
    with np.errstate(invalid="ignore"):
        shares = np.nan_to_num(np.exp(forward + backward - emitted - total))
    expected = np.zeros((classes, steps))
    np.add.at(expected, states, shares.T)
    return -float(total), probabilities - expected.T


def _summed(emitted: np.ndarray, can_skip: np.ndarray) -> np.ndarray:
    """Return the logarithm of the sum over paths from the first states to each state at each step."""
    sums = np.full(emitted.shape, -np.inf)
    sums[0, :2] = emitted[0, :2]
    for step in range(1, len(emitted)):
        before = sums[step - 1]
        paths = before.copy()
        paths[1:] = np.logaddexp(paths[1:], before[:-1])
        paths[2:] = np.where(can_skip[2:], np.logaddexp(paths[2:], before[:-2]), paths[2:])
        sums[step] = paths + emitted[step]
    return sums


def _sequences(
    inputs: Arrays, blank_is_last: bool, attributes: Attributes
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield number, steps and label of each sequence."""
    data, labels = inputs[0], inputs[1].astype(np.int64)
    rest = list(inputs[2:])
    steps = rest.pop(0) if attributes.get("use_data_lengths") else np.full(data.shape[1], data.shape[0])
    lengths = rest.pop(0) if attributes.get("use_label_lengths") else None
    padding = -1 if blank_is_last else 0
    for number, row in enumerate(labels):
        ends = np.flatnonzero(row == padding)
        length = int(lengths[number]) if lengths is not None else int(ends[0]) if len(ends) else len(row)
        label, first = row[:length], 0 if blank_is_last else 1
        most = data.shape[2] - 1 - (1 if blank_is_last else 0)
        if len(label) and not (label.min() >= first and label.max() <= most):
            raise RunError(f"a label has classes {label.min()} to {label.max()}, expected {first} to {most}")
        yield number, int(steps[number]), label


def _losses(inputs: Arrays, attributes: Attributes) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of each sequence, and the gradients by the data."""
    data = inputs[0]
    is_last = attributes.get("blank_label", "first") == "last"
    blank = data.shape[2] - 1 if is_last else 0
    probabilities = softmax(data.astype(np.float64), 2)
    losses, gradient = np.zeros(data.shape[1]), np.zeros(data.shape)
    for number, steps, label in _sequences(inputs, is_last, attributes):
        losses[number], gradient[:steps, number] = spelt(probabilities[:steps, number], label, blank)
    return losses, gradient


def _loss_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    if len(shapes[0]) != 3 or len(shapes[1]) != 2:
        raise ValueError("expected scores of (steps, batch, classes) and labels of (batch, length)")
    return [(shapes[0][1],)]


def _loss_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    _, gradient = _losses(inputs, attributes)
    above = gradients[0][None, :, None]
    return [(gradient * above).astype(inputs[0].dtype), *[None] * (len(inputs) - 1)]


@operator(
    "CTCLoss",
    shapes=_loss_shapes,
    gradient=_loss_gradient,
    defaults={"blank_label": "first", "use_data_lengths": 0, "use_label_lengths": 0},
)
def ctc_loss(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet ctc_loss-inl.h: a loss for each sequence, from scores (T, N, C) before any softmax.

    Inputs: scores, labels (N, L), and lengths of both where the attributes say so. Labels end at the first
    padding: 0 if blank is the first class, -1 if it is the last.
    """
    return [_losses(inputs, attributes)[0].astype(inputs[0].dtype)]


def _flat(inputs: Arrays, attributes: Attributes) -> list[np.ndarray]:
    """Return the scores as (T, N, C), and the labels as (N, L), each without blanks and padded by them."""
    data, labels = inputs[0], inputs[1]
    scores = data.reshape(int(attributes["input_length"]), -1, data.shape[-1])
    rows = labels.reshape(-1, int(attributes["label_length"]))
    packed = np.zeros_like(rows)
    for target, row in zip(packed, rows, strict=True):
        named = row[row != 0]
        target[: len(named)] = named
    return [scores, packed]


def _output_shapes(shapes: Shapes, attributes: Attributes) -> Shapes:
    return [shapes[0]]


def _output_gradient(inputs: Arrays, outputs: Arrays, gradients: Arrays, attributes: Attributes) -> Gradients:
    _, gradient = _losses(_flat(inputs, attributes), {"blank_label": "first"})
    return [gradient.reshape(inputs[0].shape).astype(inputs[0].dtype), None]


@operator(
    "CTCOutput",
    shapes=_output_shapes,
    gradient=_output_gradient,
    defaults={"input_length": 0, "label_length": 0},
)
def ctc_output(inputs: Arrays, attributes: Attributes) -> Arrays:
    """MXNet plugin/warpctc/warpctc-inl.h: softmax over rows (T * N, C); its gradient is that of the CTC loss.

    The gradient from above is ignored. Labels are (N * L), with 0 for blank.
    """
    return [softmax(inputs[0], inputs[0].ndim - 1)]
