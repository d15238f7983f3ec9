"""Layers with a matrix (keras/layers/core)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.keras.layers.elementwise import activate
from netweave.formats.keras.layers.recurrent import nonzero
from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.channels_last.layer import gather


@layer_reader("Dense")
def dense(ctx: KerasLayer) -> Tensor:
    """``x W + b`` over the last axis."""
    units, features = ctx.positive("units"), ctx.channels()
    weight = ctx.parameter("kernel", (features, units))
    bias = ctx.optional_parameter("use_bias", "bias", (units,), role="bias")
    if ctx.rank() == 2:
        product = Tensor(ctx.add("Gemm", [ctx.x, weight, *([bias] if bias else [])]))
    else:
        product = Tensor(ctx.add("MatMul", [ctx.x, weight]))
        product = ctx.broadcast("Add", [product, bias]) if bias else product
    return activate(ctx, product, "activation")


@layer_reader("EinsumDense")
def einsum_dense(ctx: KerasLayer) -> Tensor:
    """A sum over named axes of the input and a kernel, whose sizes follow from those of both sides."""
    equation = ctx.string("equation", "").replace(" ", "")
    inputs, _, out = equation.partition("->")
    left, _, kernel_axes = inputs.partition(",")
    given = ctx.setting("output_shape", [])
    rest = [given] if isinstance(given, int) else list(given)
    if not (left and kernel_axes and out) or len(set(left)) < len(left) or len(out) != len(rest) + 1:
        raise ctx.unsupported(f"equation={equation!r:.60} with output_shape={rest} is not supported")
    if "." in equation or len(left) != ctx.rank():
        raise ctx.unsupported(f"equation={equation!r:.60} of {ctx.rank()} axes is not supported")
    known = dict(zip(out[1:], rest, strict=True)) | dict(zip(left, ctx.shape(), strict=True))
    kernel = ctx.parameter("kernel", _known_sizes(ctx, known, kernel_axes))
    total = Tensor(ctx.add("Einsum", [ctx.x, kernel], {"equation": equation}))
    bias_axes = ctx.string("bias_axes", "")
    if bias_axes:
        if not set(bias_axes) <= set(out):
            raise ctx.read_error(f"bias_axes={bias_axes!r:.40} of equation={equation!r:.60}")
        held = [axis for axis in out if axis in bias_axes]
        sizes = dict(zip(held, _known_sizes(ctx, known, held), strict=True))
        # Keras stores size 1 for the axes between and behind that the bias does not have
        wide = [sizes.get(axis, 1) for axis in out[out.index(held[0]) :]]
        total = ctx.broadcast("Add", [total, ctx.parameter("bias", tuple(wide), role="bias")])
    return activate(ctx, total, "activation")


def _known_sizes(ctx: KerasLayer, known: Mapping[str, int | None], axes: Iterable[str]) -> list[int]:
    sizes = [known.get(axis) for axis in axes]
    if None in sizes:
        equation = ctx.string("equation", "")
        raise ctx.shape_error(f"the sizes of its arrays cannot be derived from equation={equation!r:.60}")
    return [size or 0 for size in sizes]


@layer_reader("Embedding")
def embedding(ctx: KerasLayer) -> Tensor:
    """A row of a table for each number."""
    table = ctx.parameter("embeddings", (ctx.positive("input_dim"), ctx.positive("output_dim")))
    numbers = ctx.x
    if numbers.value.dtype is not None and numbers.value.dtype.is_floating_point():
        numbers = ctx.as_type(numbers, ir.DataType.INT64)
    rows = gather(ctx, table, numbers, 0)
    return ctx.masked(rows, nonzero(ctx, ctx.x) if ctx.boolean("mask_zero", False) else None)
