"""Products with a matrix, and rows of a table: ``inner_product.cc``, ``embedding.cc``, ``onehot.cc``."""

from __future__ import annotations

from netweave.formats.singa.call import Call, Made, layer

_INT64 = 7
"""ONNX's number of the type."""


@layer("kInnerProduct")
def inner_product(call: Call) -> Made:
    """A matrix product over all but the batch, with a bias; weights [out, in], or transposed if told so."""
    settings = call.spec["innerproduct_conf"]
    num_output, transpose = settings["num_output"], settings["transpose"]
    if num_output < 1:
        raise call.wrong(f"'num_output' is {num_output}, expected 1 or more", settings.line_of("num_output"))
    call.expect_parameters([2], "the weights and the bias")
    x, num_inputs = call.rows()
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    weight = call.parameter(0, shape, "weight")
    bias = call.parameter(1, (num_output,), "bias")
    return Made([call.add("Gemm", [x, weight, bias], {"transB": int(not transpose)})])


@layer("kEmbedding")
def embedding(call: Call) -> Made:
    """Rows of a table [vocab_size, feature_dim], chosen by whole numbers that come as floats."""
    settings = call.spec["embedding_conf"]
    shape = settings["vocab_size"], settings["feature_dim"]
    if min(shape) < 1:
        raise call.wrong("needs 'vocab_size' and 'feature_dim' of 1 or more", settings.line)
    call.expect_parameters([1], "the table")
    table = call.parameter(0, shape, "weight")
    index = call.builder.add("Cast", [call.data()], {"to": _INT64})
    return Made([call.add("Gather", [table, index], {"axis": 0})])


@layer("kOneHot")
def one_hot(call: Call) -> Made:
    """1 at the place that a whole number says, 0 elsewhere; ``vocab_size`` places."""
    settings = call.spec["onehot_conf"]
    size = settings["vocab_size"]
    if size < 1:
        raise call.wrong(f"'vocab_size' is {size}, expected 1 or more", settings.line)
    index = call.builder.add("Cast", [call.data()], {"to": _INT64})
    places = call.builder.constant(size, dtype="int64")
    return Made([call.add("OneHot", [index, places, call.builder.constant([0, 1])], {"axis": -1})])
