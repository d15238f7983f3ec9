"""Recurrent cells and layers that TensorFlow has as one operator (lstm_ops.cc, gru_ops.cc)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.formats.lowering.activations import clip
from netweave.formats.lowering.channels_last import Stored, Tensor
from netweave.formats.lowering.channels_last.axes import concat, drop, split, widen
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.lowering.channels_last import Operand
    from netweave.formats.tensorflow.context import TensorFlowOperation
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

    def step(self, ctx: TensorFlowOperation, x: Operand, cell: Operand, hidden: Operand) -> list[Tensor]:
        """Return i, the cell, f, o, the candidate, the cell behind tanh and the output of one step."""
        joined = concat(ctx, [x, hidden], 1)
        raw = dict(zip(self.order, _gates(ctx, joined, self.weight, self.bias, 4), strict=True))
        if self.forget_bias:
            raw["f"] = ctx.broadcast("Add", [raw["f"], ctx.scalar(self.forget_bias, raw["f"])])
        i = self._gate(ctx, raw["i"], cell, 0)
        f = self._gate(ctx, raw["f"], cell, 1)
        candidate = ctx.unary("Tanh", raw["c"])
        kept = ctx.broadcast("Mul", [f, cell])
        state = ctx.broadcast("Add", [kept, ctx.broadcast("Mul", [i, candidate])])
        if self.clip > 0:
            state = ctx.elementwise(clip, state, low=-self.clip, high=self.clip)
        o = self._gate(ctx, raw["o"], state, 2)
        out = ctx.unary("Tanh", state)
        return [i, state, f, o, candidate, out, ctx.broadcast("Mul", [o, out])]

    def _gate(self, ctx: TensorFlowOperation, raw: Tensor, cell: Operand, number: int) -> Tensor:
        if self.peepholes:
            raw = ctx.broadcast("Add", [raw, ctx.broadcast("Mul", [cell, self.peepholes[number]])])
        return ctx.unary("Sigmoid", raw)


def _cell(ctx: TensorFlowOperation, weight: Operand, peepholes: Sequence[Operand], bias: Operand) -> _Cell:
    """Return the cell of a node; the operators' own defaults differ."""
    later = ctx.op == "BlockLSTMV2"
    return _Cell(
        ORDERS[ctx.op],
        weight,
        tuple(peepholes) if ctx.attribute("use_peephole", False) else (),
        bias,
        0.0 if later else ctx.number("forget_bias", 1.0),
        ctx.number("cell_clip", 0.0 if later else 3.0),
    )


@operator_reader("LSTMBlockCell")
def lstm_block_cell(ctx: TensorFlowOperation) -> list[Item]:
    """One step; ``forget_bias`` is added to f, the cell is clipped where ``cell_clip`` is above 0."""
    x, cell, hidden, weight, *peepholes, bias = ctx.operands()
    return list(_cell(ctx, weight, peepholes, bias).step(ctx, x, cell, hidden))


@operator_reader("BlockLSTM", "BlockLSTMV2")
def block_lstm(ctx: TensorFlowOperation) -> list[Item]:
    """All steps of (time, batch, features), written out; those from ``seq_len_max`` on are 0."""
    x, cell, hidden, weight, *peepholes, bias = ctx.operands(1)
    count = ctx.size(0, x)
    last = min(ctx.integer_input(0, "the number of steps"), ctx.few(count))
    ctx.interpreter.spend(STEP * count, ctx.place)
    lstm = _cell(ctx, weight, peepholes, bias)
    rows: list[list[Tensor]] = []
    for piece in split(ctx, x, [1] * count, 0)[: max(last, 0)]:
        rows.append(lstm.step(ctx, drop(ctx, piece, [0]), cell, hidden))
        cell, hidden = rows[-1][1], rows[-1][6]
    if not rows:
        raise ctx.unsupported("runs no step, expected at least one")
    if last < count:
        nothing = ctx.broadcast("Mul", [rows[0][0], ctx.scalar(0.0, rows[0][0])])
        rows += [[nothing] * 7] * (count - last)
    return [concat(ctx, [widen(ctx, row[k], [0]) for row in rows], 0) for k in range(7)]


@operator_reader("GRUBlockCell")
def gru_block_cell(ctx: TensorFlowOperation) -> list[Item]:
    """One step: r and u from the input and the state, then the candidate from the input and ``r * state``."""
    x, state, w_ru, w_c, b_ru, b_c = ctx.operands()
    gates = _gates(ctx, concat(ctx, [x, state], 1), w_ru, b_ru, 2)
    r, u = (ctx.unary("Sigmoid", gate) for gate in gates)
    reset = ctx.broadcast("Mul", [r, state])
    (raw,) = _gates(ctx, concat(ctx, [x, reset], 1), w_c, b_c, 1)
    candidate = ctx.unary("Tanh", raw)
    fresh = ctx.broadcast("Mul", [ctx.broadcast("Sub", [ctx.scalar(1.0, u), u]), candidate])
    return [r, u, candidate, ctx.broadcast("Add", [ctx.broadcast("Mul", [u, state]), fresh])]


def _gates(ctx: TensorFlowOperation, x: Tensor, weight: Operand, bias: Operand, count: int) -> list[Tensor]:
    product = Tensor(ctx.add("MatMul", [x, weight]))
    if isinstance(bias, Stored):
        bias = bias.with_role("bias")
    total = ctx.broadcast("Add", [product, bias])
    width = ctx.size(1, total)
    return split(ctx, total, [width // count] * count, 1)
