"""Recurrent layers as ONNX's LSTM, GRU and RNN, from TensorFlow's and Keras's weights.

A kernel is (features, gates * units) and the gates stand beside one another: i, f, c, o for Keras's LSTM
(ONNX: i, o, f, c), z, r, h for its GRU, as in ONNX.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last.tensor import Stored, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.channels_last.writer import Writer


@dataclass(frozen=True, slots=True)
class Kind:
    """A recurrent layer: ONNX's operator, and the source's gate for each of ONNX's."""

    op_type: str
    gates: tuple[int, ...]


LSTM = Kind("LSTM", (0, 3, 1, 2))
GRU = Kind("GRU", (0, 1, 2))
RNN = Kind("RNN", (0,))


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
    """What a layer makes: every step as (batch, time, directions * units), and the last states."""

    steps: Tensor
    states: tuple[Tensor, ...]


def recurrent(
    writer: Writer,
    kind: Kind,
    x: Tensor,
    weights: Sequence[Weights],
    *,
    units: int,
    attributes: dict[str, Any],
    states: Sequence[Tensor | None] = (),
    lengths: ir.Value | None = None,
) -> Outputs:
    """Write a recurrent layer over (batch, time, features).

    Args:
        writer: Where to.
        kind: Which layer.
        x: The sequence.
        weights: Arrays of each direction.
        units: Size of the state.
        attributes: Attributes of the ONNX operator.
        states: First states (batch, units) in ONNX's order; none for zeros.
        lengths: Steps of each example; none where all have all steps.
    """
    turned = writer.add("Transpose", [writer.source(x)], {"perm": [1, 0, 2]})
    inputs: list[ir.Value | None] = [
        turned,
        _joined(writer, [_matrix(writer, w.kernel, kind, units) for w in weights]),
        _joined(writer, [_matrix(writer, w.recurrent, kind, units) for w in weights]),
        _biases(writer, kind, weights, units),
    ]
    if lengths is not None or any(state is not None for state in states):
        inputs += [lengths, *(_state(writer, state) for state in states)]
    num_outputs = 3 if kind is LSTM else 2
    made = writer.add_many(
        kind.op_type, inputs, {"hidden_size": units, **attributes}, num_outputs=num_outputs
    )
    by_batch = writer.add("Transpose", [made[0]], {"perm": [2, 0, 1, 3]})
    steps = writer.add("Reshape", [by_batch, writer.integers([0, 0, len(weights) * units])])
    return Outputs(Tensor(steps), tuple(_last(writer, state, len(weights) * units) for state in made[1:]))


def _matrix(writer: Writer, stored: Stored, kind: Kind, units: int) -> ir.Value:
    """Return ONNX's (1, gates * units, features), with the gates in ONNX's order."""
    features = stored.shape[0]
    ranges = _ranges(kind, units * features)
    rows = len(kind.gates) * units
    layout = [("transpose", (1, 0)), ("ranges", ranges), ("reshape", (1, rows, features))]
    return writer.stored(stored, layout=layout, role="weight")


def _biases(writer: Writer, kind: Kind, weights: Sequence[Weights], units: int) -> ir.Value | None:
    if all(w.bias is None for w in weights):
        return None
    return _joined(writer, [_bias(writer, kind, w.bias, units) for w in weights])


def _bias(writer: Writer, kind: Kind, stored: Stored | None, units: int) -> ir.Value:
    """Return ONNX's (1, 2 * gates * units): the bias of the input, then that of the state."""
    size = len(kind.gates) * units
    zeros = writer.builder.constant(np.zeros((1, size)))
    if stored is None:
        return writer.add("Concat", [zeros, zeros], {"axis": 1})
    ranges = _ranges(kind, units)
    if len(stored.shape) == 2:
        both = (*ranges, *(bound + size for bound in ranges))
        return writer.stored(stored, layout=[("ranges", both), ("reshape", (1, 2 * size))], role="bias")
    own = writer.stored(stored, layout=[("ranges", ranges), ("reshape", (1, size))], role="bias")
    return writer.add("Concat", [own, zeros], {"axis": 1})


def _ranges(kind: Kind, count: int) -> tuple[int, ...]:
    return tuple(bound for gate in kind.gates for bound in (gate * count, (gate + 1) * count))


def _joined(writer: Writer, values: Sequence[ir.Value]) -> ir.Value:
    return values[0] if len(values) == 1 else writer.add("Concat", values, {"axis": 0})


def _state(writer: Writer, state: Tensor | None) -> ir.Value | None:
    if state is None:
        return None
    return writer.add("Unsqueeze", [writer.source(state), writer.integers([0])])


def _last(writer: Writer, state: ir.Value, width: int) -> Tensor:
    """Return a last state as (batch, directions * units)."""
    turned = writer.add("Transpose", [state], {"perm": [1, 0, 2]})
    return Tensor(writer.add("Reshape", [turned, writer.integers([0, width])]))
