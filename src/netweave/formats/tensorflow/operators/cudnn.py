"""Recurrent layers of cuDNN, whose weights lie in one array (cudnn_rnn_ops.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.recurrent import CUDNN_CELLS, RecurrentCell, stacked_layers
from netweave.formats.lowering.recurrent_weights import PackedWeights
from netweave.formats.tensorflow.operands import constant_of
from netweave.formats.tensorflow.registry import operator_reader
from netweave.graph.wording import dims_text

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last import Operand
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.formats.tensorflow.operands import Item


@operator_reader("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(ctx: TensorFlowOperation) -> list[Item]:
    """Layers of one kind over each other; the input is (time, batch, features) unless it says otherwise."""
    cell, by_time = _cell(ctx), bool(ctx.attribute("time_major", True))
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


def _cell(ctx: TensorFlowOperation) -> RecurrentCell:
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
