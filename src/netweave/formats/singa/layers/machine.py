"""Restricted Boltzmann machines, ``rbm.cc``: two layers read each other; a graph is one of the directions.

Upwards the visible layer is what it reads, and the hidden one gives its probabilities. Downwards (see
``reader``) states of the hidden layer give those of the visible one.
"""

from __future__ import annotations

from netweave.formats.singa.call import Call, Made, layer

_PARAMETERS = "the weights and the bias"


@layer("kRBMVis", sources=2)
def visible(call: Call) -> Made:
    """Upwards what it reads; downwards ``sigmoid(h * W + b)``, which SINGA does not sample."""
    call.expect_parameters([2], _PARAMETERS)
    return Made([call.data()])


@layer("kRBMHid")
def hidden(call: Call) -> Made:
    """``sigmoid(v * transposed W + b)``, without the sigmoid if ``gaussian``; weights [hidden, visible]."""
    size = units(call)
    call.expect_parameters([2], _PARAMETERS)
    x, num_visible = call.rows()
    arrays = [call.parameter(0, (size, num_visible), "weight"), call.parameter(1, (size,), "bias")]
    if call.spec["rbm_conf"]["gaussian"]:
        return Made([call.add("Gemm", [x, *arrays], {"transB": 1})])
    return Made([call.add("Sigmoid", [call.builder.add("Gemm", [x, *arrays], {"transB": 1})])])


def downwards(call: Call, num_visible: int) -> Made:
    """``sigmoid(h * W + b)`` of a visible layer, from the states of its hidden one."""
    x, size = call.rows()
    arrays = [call.parameter(0, (size, num_visible), "weight"), call.parameter(1, (num_visible,), "bias")]
    return Made([call.add("Sigmoid", [call.builder.add("Gemm", [x, *arrays])])])


def units(call: Call) -> int:
    """Return the number of hidden units."""
    settings = call.spec["rbm_conf"]
    size: int = settings["hdim"]
    if size < 1:
        raise call.wrong(f"'hdim' is {size}, expected 1 or more", settings.line)
    return size
