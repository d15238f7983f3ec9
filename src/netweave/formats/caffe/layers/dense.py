"""InnerProduct and Embed: ``inner_product_layer.cpp``, ``embed_layer.cpp``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


@layer("InnerProduct")
def inner_product(call: Call) -> Sequence[ir.Value]:
    """A matrix product over all axes from ``axis`` on; weights [out, in], or [in, out] if ``transpose``."""
    parameter = call.spec["inner_product_param"]
    num_output, transpose = parameter["num_output"], parameter["transpose"]
    axis = call.axis(parameter["axis"])
    if num_output < 1:
        raise call.wrong("has no 'num_output' of 1 or more", parameter.line)
    num_inputs = prod(call.size(each) for each in range(axis, len(call.shape())))
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    flat = axis <= 1
    layout = () if flat or transpose else (("transpose", (1, 0)),)
    weight = call.blob(0, shape, "weight", parameter["weight_filler"], layout=layout)
    bias = call.blob(1, (num_output,), "bias", parameter["bias_filler"]) if parameter["bias_term"] else None
    if flat:
        return [_product_of_rows(call, axis, weight, bias, transpose=transpose)]
    x = call.bottoms[0]
    if axis < len(call.shape()) - 1:
        x = call.add("Reshape", [x, call.constant([0] * axis + [num_inputs], dtype="int64")])
    product = call.add("MatMul", [x, weight], top=None if bias else 0)
    return [call.add("Add", [product, bias], top=0) if bias else product]


def _product_of_rows(
    call: Call, axis: int, weight: ir.Value, bias: ir.Value | None, *, transpose: bool
) -> ir.Value:
    x = call.bottoms[0]
    if axis == 0 or len(call.shape()) != 2:
        x = call.add("Flatten", [x], {"axis": axis})
    inputs = [x, weight, bias] if bias else [x, weight]
    attributes = {"transB": 0 if transpose else 1}
    if axis:
        return call.add("Gemm", inputs, attributes, top=0)
    row = call.add("Gemm", inputs, attributes)
    return call.add("Reshape", [row, call.constant([-1], dtype="int64")], top=0)


@layer("Embed")
def embed(call: Call) -> Sequence[ir.Value]:
    """Rows of a table [input_dim, num_output], chosen by whole numbers that come as floats."""
    parameter = call.spec["embed_param"]
    num_output, num_rows = parameter["num_output"], parameter["input_dim"]
    if num_output < 1 or num_rows < 1:
        raise call.wrong("needs 'num_output' and 'input_dim' of 1 or more", parameter.line)
    table = call.blob(0, (num_rows, num_output), "weight", parameter["weight_filler"])
    index = call.add("Cast", [call.bottoms[0]], {"to": 7})
    if not parameter["bias_term"]:
        return [call.add("Gather", [table, index], {"axis": 0}, top=0)]
    bias = call.blob(1, (num_output,), "bias", parameter["bias_filler"])
    return [call.add("Add", [call.add("Gather", [table, index], {"axis": 0}), bias], top=0)]
