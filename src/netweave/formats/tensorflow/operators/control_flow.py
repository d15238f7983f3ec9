"""Control flow, recurrent layers and tensor lists of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.layer import concat, drop, split, widen
from netweave.formats.lowering.elementwise import clip
from netweave.formats.lowering.recurrent import CUDNN_CELLS, PackedWeights, RecurrentCell, stacked_layers
from netweave.formats.tensorflow.attributes import Function
from netweave.formats.tensorflow.frames import FRAME, Frame
from netweave.formats.tensorflow.nodes import MAX_PIECES, TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Dead, Handle, Item, TensorList, constant_of
from netweave.graph.summary import dims_text

# TensorFlow 1 sends a tensor through ``Switch`` to one of two branches, which meet in ``Merge``; TensorFlow
# 2 calls a function (``If``, ``While``, ``PartitionedCall``); its loops are made one node by ``frames``. A
# condition that is an input of the net without a value, as ``is_training`` is, counts as False.


@operator_reader("Switch", "RefSwitch", plain=True)
def switch(ctx: TensorFlowOperation) -> list[Item]:
    """The first output if the condition is False, the second one if it is True."""
    item = ctx.item(0)
    taken = _condition(ctx, 1)
    return [Dead(), item] if taken else [item, Dead()]


@operator_reader("Merge", "RefMerge", plain=True)
def merge(ctx: TensorFlowOperation) -> list[Item]:
    """The input whose branch is taken, and its number."""
    alive = [(number, item) for number, item in enumerate(ctx.inputs) if not isinstance(item, Dead)]
    if not alive:
        return [Dead(), Dead()]
    number, item = alive[0]
    return [item, Stored.constant(np.asarray(number, np.int32))]


@operator_reader("PartitionedCall", "StatefulPartitionedCall", plain=True)
def partitioned_call(ctx: TensorFlowOperation) -> list[Item]:
    """A function of the net."""
    return ctx.run(_function(ctx, "f"), ctx.inputs)


@operator_reader("If", "StatelessIf", plain=True)
def condition(ctx: TensorFlowOperation) -> list[Item]:
    """One of two functions."""
    name = "then_branch" if _condition(ctx, 0) else "else_branch"
    return ctx.run(_function(ctx, name), ctx.inputs[1:])


@operator_reader("While", "StatelessWhile", plain=True)
def loop(ctx: TensorFlowOperation) -> list[Item]:
    """A function again and again, written out; how often must be known while the net is read."""
    condition, body = _function(ctx, "cond"), _function(ctx, "body")
    return _repeated(
        ctx, ctx.inputs, lambda state: ctx.run(condition, state), lambda state: ctx.run(body, state)
    )


@operator_reader("LoopCond", plain=True)
def frame(ctx: TensorFlowOperation) -> list[Item]:
    """A loop of TensorFlow 1 (``frames``): its values come first, then what is the same in all iterations."""
    loop = ctx.attribute(FRAME)
    if not isinstance(loop, Frame):
        raise ctx.unsupported("a loop that was not made by tf.while_loop is not supported")
    count = len(loop.merges)
    within = ctx.interpreter.within
    same = {name: [item] for name, item in zip(loop.constants, ctx.inputs[count:], strict=True)}

    def begun(state: Sequence[Item]) -> dict[str, list[Item]]:
        return same | {name: [item] for name, item in zip(loop.merges, state, strict=True)}

    def condition(state: Sequence[Item]) -> list[Item]:
        return within(begun(state), [loop.condition])

    def body(state: Sequence[Item]) -> list[Item]:
        pairs = zip(loop.switches, state, strict=True)
        taken = {name: [Dead(), item] for names, item in pairs for name in names}
        return within({**begun(state), **taken}, loop.following)

    return _repeated(ctx, ctx.inputs[:count], condition, body)


def _repeated(
    ctx: TensorFlowOperation,
    begin: Sequence[Item],
    condition: Callable[[Sequence[Item]], list[Item]],
    body: Callable[[Sequence[Item]], list[Item]],
) -> list[Item]:
    """Return what a loop leaves, written out iteration by iteration."""
    state = list(begin)
    for _ in range(MAX_PIECES):
        ctx.interpreter.spend(1, ctx.place)
        held = condition(state)
        number = constant_of(held[0]) if held else None
        if number is None:
            raise ctx.unsupported(
                "the number of iterations is unknown; set the sizes of the net's inputs, with the length of "
                "the sequence, as in --input-shape tokens=1x20; a loop whose end depends on values, such as "
                "that of dynamic_rnn with a sequence_length, is not supported"
            )
        if not bool(number.reshape(-1)[0]):
            return state
        state = body(state)
    raise ctx.unsupported(f"the loop runs more than {MAX_PIECES:,} times")


def _condition(ctx: TensorFlowOperation, index: int) -> bool:
    value = constant_of(ctx.item(index))
    if value is None or value.size != 1:
        raise ctx.unsupported(
            "its condition depends on the values of the inputs, which is not supported; expected a "
            "constant condition"
        )
    return bool(value.reshape(-1)[0])


def _function(ctx: TensorFlowOperation, name: str) -> str:
    value = ctx.attribute(name)
    if not isinstance(value, Function):
        raise ctx.unsupported(f"its {name!r} is not the name of a function")
    return value.name


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


def _cell_recurrent(
    ctx: TensorFlowOperation, weight: Operand, peepholes: Sequence[Operand], bias: Operand
) -> _Cell:
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
    return list(_cell_recurrent(ctx, weight, peepholes, bias).step(ctx, x, cell, hidden))


@operator_reader("BlockLSTM", "BlockLSTMV2")
def block_lstm(ctx: TensorFlowOperation) -> list[Item]:
    """All steps of (time, batch, features), written out; those from ``seq_len_max`` on are 0."""
    x, cell, hidden, weight, *peepholes, bias = ctx.operands(1)
    count = ctx.size(0, x)
    last = min(ctx.integer_input(0, "the number of steps"), ctx.few(count))
    ctx.interpreter.spend(STEP * count, ctx.place)
    lstm = _cell_recurrent(ctx, weight, peepholes, bias)
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


@operator_reader("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(ctx: TensorFlowOperation) -> list[Item]:
    """Layers of one kind over each other; the input is (time, batch, features) unless it says otherwise."""
    cell, by_time = _cell_cudnn(ctx), bool(ctx.attribute("time_major", True))
    num_directions = 2 if ctx.string("direction", "unidirectional") == "bidirectional" else 1
    x, *states = (_by_time(ctx, ctx.operand(index), by_time) for index in range(1 + cell.num_states))
    count, hidden_size = ctx.sizes([0, 2], states[0])
    num_layers = ctx.few(count) // num_directions
    packed = PackedWeights(
        cell.op_type,
        ctx.size(2, x),
        hidden_size,
        num_layers=num_layers,
        num_directions=num_directions,
    )
    array = ctx.operand(3)
    if ctx.shape(array) not in {(packed.size,), (None,)}:
        sizes = dims_text(ctx.shape(array))
        raise ctx.shape_error(f"its weights are {sizes}, expected {packed.size:,} numbers in a row")
    weights = [
        (ctx.in_layout(array, w), ctx.in_layout(array, r), ctx.in_layout(array, b))
        for w, r, b in packed.layouts()
    ]
    outputs, last = stacked_layers(
        ctx,
        cell,
        x,
        weights,
        hidden_size=hidden_size,
        num_directions=num_directions,
        lengths=_lengths(ctx, x),
        states=states,
    )
    return [Tensor(_by_time(ctx, value, by_time)) for value in (outputs, *last)]


def _cell_cudnn(ctx: TensorFlowOperation) -> RecurrentCell:
    mode = ctx.string("rnn_mode", "lstm")
    if mode not in CUDNN_CELLS:
        raise ctx.unsupported(f"rnn_mode={mode!r:.40} is not supported, only {', '.join(CUDNN_CELLS)}")
    if ctx.string("input_mode", "linear_input") == "skip_input" or ctx.integer("num_proj", 0):
        raise ctx.unsupported("input_mode=skip_input and projections (num_proj) are not supported")
    return CUDNN_CELLS[mode]


def _by_time(ctx: TensorFlowOperation, x: Operand, is_so: bool) -> ir.Value:
    return ctx.source(x) if is_so else ctx.transpose(ctx.source(x), [1, 0, 2])


def _lengths(ctx: TensorFlowOperation, x: ir.Value) -> ir.Value | None:
    """Return the steps of each example; none where all have all steps."""
    if ctx.op != "CudnnRNNV3":
        return None
    lengths = constant_of(ctx.item(4))
    if lengths is not None and (lengths == ctx.size(0, x)).all():
        return None
    return ctx.source(ctx.as_type(ctx.operand(4), ir.DataType.INT32))


# TensorFlow 2 has lists that operators take and give on. TensorFlow 1 has arrays: every operator is given
# the array's ``flow``, its last input, and gives it on; here the flow is the list of tensors itself, and
# the handle says nothing.


@operator_reader("TensorArrayV3", "TensorListReserve", "EmptyTensorList", plain=True)
def new(ctx: TensorFlowOperation) -> list[Item]:
    """A list of tensors that are not set yet."""
    if ctx.op == "EmptyTensorList":
        return [TensorList(())]
    is_array = ctx.op == "TensorArrayV3"
    count = ctx.few(ctx.integer_input(0 if is_array else 1, "the length of the list"))
    empty = TensorList((None,) * count)
    return [Handle(ctx.node.name), empty] if is_array else [empty]


@operator_reader("TensorArraySizeV3", "TensorListLength", plain=True)
def length(ctx: TensorFlowOperation) -> Item:
    """Return the capacity, as a number of tensors."""
    return Stored.constant(np.asarray(len(_items(ctx)), np.int32))


@operator_reader("TensorArrayReadV3", "TensorListGetItem", plain=True)
def get(ctx: TensorFlowOperation) -> Item:
    """One tensor."""
    return _entries(ctx, ctx.integers_input(1, "the place in the list"))[0]


@operator_reader("TensorArrayWriteV3", "TensorListSetItem", plain=True)
def put(ctx: TensorFlowOperation) -> Item:
    """The list with another tensor at one place."""
    return _with(ctx, ctx.integers_input(1, "the place in the list"), [ctx.operand(2)])


@operator_reader("TensorListPushBack", plain=True)
def push_back(ctx: TensorFlowOperation) -> Item:
    """The list with one more tensor."""
    return TensorList((*_items(ctx), ctx.operand(1)))


@operator_reader("TensorListFromTensor")
def from_tensor(ctx: TensorFlowOperation) -> Item:
    """The entries of a tensor along its first axis."""
    return TensorList(tuple(_unstacked(ctx, ctx.x, ctx.size(0))))


@operator_reader("TensorArrayScatterV3")
def scatter(ctx: TensorFlowOperation) -> Item:
    """The array with the entries of a tensor along its first axis, at the places that are named."""
    places = ctx.integers_input(1, "the places in the array")
    return _with(ctx, places, _unstacked(ctx, ctx.operand(2), len(places)))


@operator_reader("TensorArraySplitV3")
def split_array(ctx: TensorFlowOperation) -> Item:
    """The array with pieces of a tensor along its first axis."""
    lengths = ctx.integers_input(2, "the lengths of the pieces")
    places = range(ctx.few(len(lengths)))
    return _with(ctx, places, split(ctx, ctx.operand(1), lengths, 0))


@operator_reader("TensorArrayGatherV3", "TensorListStack")
def stack(ctx: TensorFlowOperation) -> Item:
    """All tensors, or some of an array, along a new first axis."""
    is_array = ctx.op == "TensorArrayGatherV3"
    places = ctx.integers_input(1, "the places in the array") if is_array else range(len(_items(ctx)))
    new_axis = ctx.integers([0])
    return concat(ctx, [ctx.add("Unsqueeze", [item, new_axis]) for item in _entries(ctx, places)], 0)


@operator_reader("TensorArrayConcatV3")
def join(ctx: TensorFlowOperation) -> list[Item]:
    """All tensors after one another along their first axis, and how long each is there."""
    items = _entries(ctx, range(len(_items(ctx))))
    lengths = [ctx.size(0, item) for item in items]
    return [concat(ctx, items, 0), Stored.constant(np.asarray(lengths, np.int64))]


@operator_reader("TensorArrayCloseV3", plain=True)
def close(ctx: TensorFlowOperation) -> list[Item]:
    """Nothing."""
    return []


def _items(ctx: TensorFlowOperation) -> tuple[Tensor | Stored | None, ...]:
    item = ctx.item(0 if ctx.op.startswith("TensorList") else -1)
    if not isinstance(item, TensorList):
        raise ctx.unsupported("reads something that is not a list of tensors")
    return item.items


def _entries(ctx: TensorFlowOperation, places: Sequence[int]) -> list[Tensor | Stored]:
    items = _items(ctx)
    chosen = [items[place] if 0 <= place < len(items) else None for place in places]
    entries = [item for item in chosen if item is not None]
    if not entries or len(entries) < len(chosen):
        raise ctx.unsupported(f"reads an entry of a list of {len(items)} tensors that is not set")
    return entries


def _with(ctx: TensorFlowOperation, places: Sequence[int], values: Sequence[Tensor | Stored]) -> TensorList:
    items = list(_items(ctx))
    for place, value in zip(places, values, strict=True):
        if not 0 <= place < ctx.few(max(place, 0) + 1):
            raise ctx.unsupported(f"sets entry {place} of a list")
        items += [None] * (place + 1 - len(items))
        items[place] = value
    return TensorList(tuple(items))


def _unstacked(ctx: TensorFlowOperation, x: Tensor | Stored, count: int) -> list[Tensor]:
    rows, axis = split(ctx, x, [1] * ctx.few(count), 0), ctx.integers([0])
    return [Tensor(ctx.add("Squeeze", [row, axis])) for row in rows]
