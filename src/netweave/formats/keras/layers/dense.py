"""Layers with a matrix (keras/layers/core)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import gather
from netweave.files.channels_last.elementwise import broadcast
from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.formats.keras.call import Call


@layer_reader("Dense")
def dense(call: Call) -> Tensor:
    """``x W + b`` over the last axis."""
    units, features = call.count("units"), call.channels()
    writer, x = call.writer, call.x
    weight = writer.stored(call.stored("kernel", (features, units)))
    bias = call.stored("bias", (units,), role="bias") if call.flag("use_bias", True) else None
    if len(call.shape(x)) == 2:
        more = [writer.stored(bias)] if bias is not None else []
        made = Tensor(writer.add("Gemm", [writer.source(x), weight, *more]))
        return activate(call, made, "activation")
    made = Tensor(writer.add("MatMul", [writer.source(x), weight]))
    if bias is not None:
        made = broadcast(writer, "Add", [made, bias])
    return activate(call, made, "activation")


@layer_reader("Embedding")
def embedding(call: Call) -> Tensor:
    """A row of a table for each number."""
    if call.flag("mask_zero", False):
        raise call.refuse("mask_zero=True: steps that are left out depend on the values, which is not read")
    table = call.stored("embeddings", (call.count("input_dim"), call.count("output_dim")))
    numbers = call.writer.source(call.x)
    if numbers.dtype is not None and numbers.dtype.is_floating_point():
        numbers = call.writer.add("Cast", [numbers], {"to": int(ir.DataType.INT64)})
    return gather(call.writer, table, numbers, 0)
