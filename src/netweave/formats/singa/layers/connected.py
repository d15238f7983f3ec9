"""Products with a matrix, rows of a table, and restricted Boltzmann machines.

``inner_product.cc``, ``embedding.cc``, ``onehot.cc`` and ``rbm.cc``. The two layers of a machine read each
other; a graph is one of the directions. Upwards the visible layer is what it reads, and the hidden one gives
its probabilities. Downwards (see ``reader``) states of the hidden layer give those of the visible one.
"""

from __future__ import annotations

import onnx_ir as ir

from netweave.formats.singa.context import Output, SingaLayer, layer

_PARAMETERS = "the weights and the bias"


@layer("kRBMVis", sources=2)
def visible(ctx: SingaLayer) -> Output:
    """Upwards what it reads; downwards ``sigmoid(h * W + b)``, which SINGA does not sample."""
    ctx.expect_parameters([2], _PARAMETERS)
    return Output([ctx.data()])


@layer("kRBMHid")
def hidden(ctx: SingaLayer) -> Output:
    """``sigmoid(v * transposed W + b)``, without the sigmoid if ``gaussian``; weights [hidden, visible]."""
    size = ctx.positive_field(ctx.spec["rbm_conf"], "hdim")
    ctx.expect_parameters([2], _PARAMETERS)
    x, num_visible = ctx.rows()
    arrays = [ctx.parameter(0, (size, num_visible), "weight"), ctx.parameter(1, (size,), "bias")]
    if ctx.spec["rbm_conf"]["gaussian"]:
        return Output([ctx.add_output("Gemm", [x, *arrays], {"transB": 1})])
    return Output([ctx.add_output("Sigmoid", [ctx.add("Gemm", [x, *arrays], {"transB": 1})])])


def downwards(ctx: SingaLayer, num_visible: int) -> Output:
    """``sigmoid(h * W + b)`` of a visible layer, from the states of its hidden one."""
    x, size = ctx.rows()
    arrays = [ctx.parameter(0, (size, num_visible), "weight"), ctx.parameter(1, (num_visible,), "bias")]
    return Output([ctx.add_output("Sigmoid", [ctx.add("Gemm", [x, *arrays])])])


@layer("kInnerProduct")
def inner_product(ctx: SingaLayer) -> Output:
    """A matrix product over all but the batch, with a bias; weights [out, in], or transposed if told so."""
    settings = ctx.spec["innerproduct_conf"]
    num_output, transpose = ctx.positive_field(settings, "num_output"), settings["transpose"]
    ctx.expect_parameters([2], "the weights and the bias")
    x, num_inputs = ctx.rows()
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    weight = ctx.parameter(0, shape, "weight")
    bias = ctx.parameter(1, (num_output,), "bias")
    return Output([ctx.add_output("Gemm", [x, weight, bias], {"transB": int(not transpose)})])


@layer("kEmbedding")
def embedding(ctx: SingaLayer) -> Output:
    """Rows of a table [vocab_size, feature_dim], chosen by whole numbers that come as floats."""
    settings = ctx.spec["embedding_conf"]
    shape = ctx.positive_field(settings, "vocab_size"), ctx.positive_field(settings, "feature_dim")
    ctx.expect_parameters([1], "the table")
    table = ctx.parameter(0, shape, "weight")
    index = ctx.cast(ctx.data(), ir.DataType.INT64)
    return Output([ctx.add_output("Gather", [table, index], {"axis": 0})])


@layer("kOneHot")
def one_hot(ctx: SingaLayer) -> Output:
    """1 at the place that a whole number says, 0 elsewhere; ``vocab_size`` places."""
    settings = ctx.spec["onehot_conf"]
    size = ctx.positive_field(settings, "vocab_size")
    index = ctx.cast(ctx.data(), ir.DataType.INT64)
    places = ctx.constant(size, dtype="int64")
    return Output([ctx.add_output("OneHot", [index, places, ctx.constant([0, 1])], {"axis": -1})])
