"""Layers with a matrix (keras/layers/core)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import gather
from netweave.files.channels_last.elementwise import broadcast
from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.layers.masking import nonzero
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


@layer_reader("EinsumDense")
def einsum_dense(call: Call) -> Tensor:
    """A sum over named axes of the input and a kernel, whose sizes follow from those of both sides."""
    writer, x = call.writer, call.x
    equation = call.word("equation", "").replace(" ", "")
    inputs, _, out = equation.partition("->")
    left, _, kernel_axes = inputs.partition(",")
    rest = call.setting("output_shape")
    rest = [rest] if isinstance(rest, int) else list(rest or ())
    if not (left and kernel_axes and out) or len(set(left)) < len(left) or len(out) != len(rest) + 1:
        raise call.refuse(f"equation={equation!r:.60} with output_shape={rest} is not read")
    if "." in equation or len(left) != len(call.shape(x)):
        raise call.refuse(f"equation={equation!r:.60} of {len(call.shape(x))} axes is not read")
    known = dict(zip(out[1:], rest, strict=True)) | dict(zip(left, call.shape(x), strict=True))
    sizes = [known.get(axis) for axis in kernel_axes]
    if not all(isinstance(size, int) for size in sizes):
        raise call.wrong(f"the sizes of the kernel do not follow from equation={equation!r:.60}")
    kernel = call.stored("kernel", [size for size in sizes if isinstance(size, int)])
    made = Tensor(writer.add("Einsum", [writer.source(x), writer.stored(kernel)], {"equation": equation}))
    axes = call.setting("bias_axes")
    if isinstance(axes, str) and axes:
        if not set(axes) <= set(out):
            raise call.wrong(f"bias_axes={axes!r:.40} of equation={equation!r:.60}")
        shape = [known.get(axis) if axis in axes else 1 for axis in out]
        stored = [
            size for axis, size in zip(out, shape, strict=True) if axis in axes and isinstance(size, int)
        ]
        bias = call.stored("bias", stored, role="bias")
        wide = shape[min(out.index(axis) for axis in axes) :]
        made = broadcast(writer, "Add", [made, bias.reshaped(tuple(size or 1 for size in wide))])
    return activate(call, made, "activation")


@layer_reader("Embedding")
def embedding(call: Call) -> Tensor:
    """A row of a table for each number."""
    table = call.stored("embeddings", (call.count("input_dim"), call.count("output_dim")))
    numbers = call.writer.source(call.x)
    if numbers.dtype is not None and numbers.dtype.is_floating_point():
        numbers = call.writer.add("Cast", [numbers], {"to": int(ir.DataType.INT64)})
    made = gather(call.writer, table, numbers, 0)
    return call.masked(made, nonzero(call, call.x) if call.flag("mask_zero", False) else None)
