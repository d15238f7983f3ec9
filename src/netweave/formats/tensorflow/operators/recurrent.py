"""Recurrent cells and layers that TensorFlow has as one operator (lstm_ops.cc, gru_ops.cc)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import concat, drop, split, widen
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.channels_last import Operand, Writer
    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item

ORDERS = {"BlockLSTM": "icfo", "BlockLSTMV2": "ifco", "LSTMBlockCell": "icfo"}
"""The gates of each operator as they lie beside one another: c is the candidate."""

STEP = 20
"""Operators of one step, at most."""


@dataclass(frozen=True, slots=True)
class _Cell:
    """The stored arrays and the settings of an LSTM of one operator."""

    order: str
    weight: Operand
    peepholes: tuple[Operand, ...]
    bias: Operand
    forget_bias: float
    clip: float

    def step(self, writer: Writer, x: Operand, cell: Operand, hidden: Operand) -> list[Tensor]:
        """Return i, the cell, f, o, the candidate, the cell behind tanh and the output of one step."""
        joined = concat(writer, [x, hidden], 1)
        raw = dict(zip(self.order, _gates(writer, joined, self.weight, self.bias, 4), strict=True))
        if self.forget_bias:
            forget = Tensor(writer.number(self.forget_bias, raw["f"].value))
            raw["f"] = broadcast(writer, "Add", [raw["f"], forget])
        i = self._gate(writer, raw["i"], cell, 0)
        f = self._gate(writer, raw["f"], cell, 1)
        candidate = unary(writer, "Tanh", raw["c"])
        kept = broadcast(writer, "Mul", [f, cell])
        state = broadcast(writer, "Add", [kept, broadcast(writer, "Mul", [i, candidate])])
        if self.clip > 0:
            limits = [writer.number(limit, state.value) for limit in (-self.clip, self.clip)]
            state = unary(writer, "Clip", state, more=limits)
        o = self._gate(writer, raw["o"], state, 2)
        out = unary(writer, "Tanh", state)
        return [i, state, f, o, candidate, out, broadcast(writer, "Mul", [o, out])]

    def _gate(self, writer: Writer, raw: Tensor, cell: Operand, number: int) -> Tensor:
        if self.peepholes:
            raw = broadcast(writer, "Add", [raw, broadcast(writer, "Mul", [cell, self.peepholes[number]])])
        return unary(writer, "Sigmoid", raw)


def _cell(call: Call, weight: Operand, peepholes: Sequence[Operand], bias: Operand) -> _Cell:
    """Return the cell of a node; the operators' own defaults differ."""
    later = call.op == "BlockLSTMV2"
    return _Cell(
        ORDERS[call.op],
        weight,
        tuple(peepholes) if call.attribute("use_peephole", False) else (),
        bias,
        0.0 if later else call.real("forget_bias", 1.0),
        call.real("cell_clip", 0.0 if later else 3.0),
    )


@operator_reader("LSTMBlockCell")
def lstm_block_cell(call: Call) -> list[Item]:
    """One step; ``forget_bias`` is added to f, the cell is clipped where ``cell_clip`` is above 0."""
    x, cell, hidden, weight, *peepholes, bias = call.operands()
    return list(_cell(call, weight, peepholes, bias).step(call.writer, x, cell, hidden))


@operator_reader("BlockLSTM", "BlockLSTMV2")
def block_lstm(call: Call) -> list[Item]:
    """All steps of (time, batch, features), written out; those from ``seq_len_max`` on are 0."""
    writer = call.writer
    x, cell, hidden, weight, *peepholes, bias = call.operands(1)
    (count,) = writer.known(x, [0])
    last = min(call.integer(0, "the number of steps"), call.few(count))
    call.interpreter.spend(STEP * count, call.place)
    lstm = _cell(call, weight, peepholes, bias)
    rows: list[list[Tensor]] = []
    for piece in split(writer, x, [1] * count, 0)[: max(last, 0)]:
        rows.append(lstm.step(writer, drop(writer, piece, [0]), cell, hidden))
        cell, hidden = rows[-1][1], rows[-1][6]
    if not rows:
        raise call.refuse("runs no step at all")
    zero = writer.number(0.0, rows[0][0].value)
    nothing = broadcast(writer, "Mul", [rows[0][0], Tensor(zero)]) if last < count else rows[0][0]
    rows += [[nothing] * 7] * (count - last)
    return [concat(writer, [widen(writer, row[k], [0]) for row in rows], 0) for k in range(7)]


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
