"""Restricted Boltzmann machines, ``rbm.cc``: two layers read each other; a graph is one of the directions.

Upwards the visible layer is what it reads, and the hidden one gives its probabilities. Downwards (see
``reader``) states of the hidden layer give those of the visible one.
"""

from __future__ import annotations

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
