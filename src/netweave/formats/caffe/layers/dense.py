"""InnerProduct and Embed: ``inner_product_layer.cpp``, ``embed_layer.cpp``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.fused import fuses, joined

if TYPE_CHECKING:
    from collections.abc import Sequence


@layer("InnerProduct")
def inner_product(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A matrix product over all axes from ``axis`` on; weights [out, in], or [in, out] if ``transpose``."""
    parameter = ctx.spec["inner_product_param"]
    if fuses(parameter):
        return [joined(ctx, parameter, _product(ctx, top=None))]
    return [_product(ctx, top=0)]


def _product(ctx: CaffeLayer, *, top: int | None) -> ir.Value:
    parameter = ctx.spec["inner_product_param"]
    num_output, transpose = ctx.positive_field(parameter, "num_output"), parameter["transpose"]
    axis = ctx.axis(parameter["axis"])
    num_inputs = prod(ctx.size(each) for each in range(axis, ctx.rank()))
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    flat = axis <= 1
    layout = () if flat or transpose else (("transpose", (1, 0)),)
    weight = ctx.blob(0, shape, "weight", parameter["weight_filler"], layout=layout)
    bias = ctx.blob(1, (num_output,), "bias", parameter["bias_filler"]) if parameter["bias_term"] else None
    if flat:
        return _product_of_rows(ctx, axis, weight, bias, transpose=transpose, top=top)
    x = ctx.x
    if axis < ctx.rank() - 1:
        x = ctx.add("Reshape", [x, ctx.integers([0] * axis + [num_inputs])])
    product = ctx.add("MatMul", [x, weight], top=None if bias else top)
    return ctx.add("Add", [product, bias], top=top) if bias else product


def _product_of_rows(
    ctx: CaffeLayer,
    axis: int,
    weight: ir.Value,
    bias: ir.Value | None,
    *,
    transpose: bool,
    top: int | None,
) -> ir.Value:
    x = ctx.x
    if axis == 0 or ctx.rank() != 2:
        x = ctx.add("Flatten", [x], {"axis": axis})
    inputs = [x, weight, bias] if bias else [x, weight]
    attributes = {"transB": 0 if transpose else 1}
    if axis:
        return ctx.add("Gemm", inputs, attributes, top=top)
    row = ctx.add("Gemm", inputs, attributes)
    return ctx.add("Reshape", [row, ctx.integers([-1])], top=top)


@layer("Embed")
def embed(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Rows of a table [input_dim, num_output], chosen by whole numbers that come as floats."""
    parameter = ctx.spec["embed_param"]
    num_output, num_rows = (ctx.positive_field(parameter, name) for name in ("num_output", "input_dim"))
    table = ctx.blob(0, (num_rows, num_output), "weight", parameter["weight_filler"])
    index = ctx.cast(ctx.x, ir.DataType.INT64)
    if not parameter["bias_term"]:
        return [ctx.add("Gather", [table, index], {"axis": 0}, top=0)]
    bias = ctx.blob(1, (num_output,), "bias", parameter["bias_filler"])
    return [ctx.add("Add", [ctx.add("Gather", [table, index], {"axis": 0}), bias], top=0)]
