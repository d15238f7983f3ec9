"""Recurrent cells that TensorFlow has as one operator (lstm_ops.cc, gru_ops.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import concat, split
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand, Writer
    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@operator_reader("LSTMBlockCell")
def lstm_block_cell(call: Call) -> list[Item]:
    """One step; gates i, c, f, o beside one another; ``forget_bias`` is added to f."""
    if call.attribute("use_peephole", False) or call.real("cell_clip", 3.0) > 0:
        raise call.refuse("peepholes and clipped cells (cell_clip above 0) are not read")
    x, cell, hidden, weight, *_, bias = call.operands()
    writer = call.writer
    joined = concat(writer, [x, hidden], 1)
    i, candidate, f, o = _gates(writer, joined, weight, bias, 4)
    forget = Tensor(writer.number(call.real("forget_bias", 1.0), f.value))
    i, o = (unary(writer, "Sigmoid", gate) for gate in (i, o))
    f = unary(writer, "Sigmoid", broadcast(writer, "Add", [f, forget]))
    candidate = unary(writer, "Tanh", candidate)
    kept = broadcast(writer, "Mul", [f, cell])
    state = broadcast(writer, "Add", [kept, broadcast(writer, "Mul", [i, candidate])])
    out = unary(writer, "Tanh", state)
    return [i, state, f, o, candidate, out, broadcast(writer, "Mul", [o, out])]


@operator_reader("GRUBlockCell")
def gru_block_cell(call: Call) -> list[Item]:
    """One step: r and u from the input and the state, then the candidate from the input and ``r * state``."""
    x, state, w_ru, w_c, b_ru, b_c = call.operands()
    writer = call.writer
    gates = _gates(writer, concat(writer, [x, state], 1), w_ru, b_ru, 2)
    r, u = (unary(writer, "Sigmoid", gate) for gate in gates)
    reset = broadcast(writer, "Mul", [r, state])
    (raw,) = _gates(writer, concat(writer, [x, reset], 1), w_c, b_c, 1)
    candidate = unary(writer, "Tanh", raw)
    one = Tensor(writer.number(1.0, u.value))
    fresh = broadcast(writer, "Mul", [broadcast(writer, "Sub", [one, u]), candidate])
    return [r, u, candidate, broadcast(writer, "Add", [broadcast(writer, "Mul", [u, state]), fresh])]


def _gates(writer: Writer, x: Tensor, weight: Operand, bias: Operand, count: int) -> list[Tensor]:
    product = Tensor(writer.add("MatMul", [writer.source(x), writer.source(weight)]))
    if isinstance(bias, Stored):
        bias = Stored(bias.shape, bias.array, bias.key, "bias", bias.stored, bias.steps)
    total = broadcast(writer, "Add", [product, bias])
    (width,) = writer.known(total, [1])
    return split(writer, total, [width // count] * count, 1)
