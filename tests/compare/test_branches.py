"""Branches of one size are told apart by what is stored for them."""

from __future__ import annotations

import numpy as np

from netweave.compare.carry import carry_weights
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.oracles import recipe


def block(*, shortcut_first: bool):
    """A residual block whose shortcut and first convolution make values of one size from one value."""
    builder = GraphBuilder("block", format="onnx")

    def conv(x, name, shape, stride, pad):
        with builder.layer(Layer(f"{name}{shortcut_first}", f"{name}{shortcut_first}", "Conv")):
            values = recipe.weight(f"{name} {shortcut_first}", shape, "filter")
            weight = builder.parameter(Parameter(name, shape), values)
            return builder.add("Conv", [x, weight], {"strides": [stride] * 2, "pads": [pad] * 4})

    x = builder.input("data", (1, 4, 9, 9))
    if shortcut_first:
        y = conv(x, "shortcut", (6, 4, 1, 1), 2, 0)
    z = builder.add("Relu", [conv(x, "first", (6, 4, 3, 3), 2, 1)])
    z = conv(z, "second", (6, 6, 3, 3), 1, 1)
    if not shortcut_first:
        y = conv(x, "shortcut", (6, 4, 1, 1), 2, 0)
    return builder.finish([builder.add("Add", [z, y])])


def test_a_shortcut_is_not_taken_for_the_convolution_beside_it():
    net, port = block(shortcut_first=False), block(shortcut_first=True)
    filled = carry_weights(net, port)
    for key in ("shortcut", "first", "second"):
        taken, given = (graph.model.graph.initializers[key].const_value.numpy() for graph in (filled, net))
        np.testing.assert_array_equal(taken, given)
