"""Weights that are carried to a port whose layers are cut, padded and flattened in another way."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.compare.carry import carry_weights
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.compare.nets import Form, build
from tests.oracles import recipe


def stored(graph, key):
    (value,) = (v for v in graph.model.graph.initializers.values() if v.name == key)
    return value.const_value.numpy()


@pytest.mark.parametrize("directions", [("CHW", "HWC"), ("HWC", "CHW")])
def test_dense_weights_follow_the_order_of_the_flatten(directions):
    first, second = (build(Form(flatten=order)) for order in directions)
    port = build(Form(flatten=directions[1], changed={"fc": ((slice(None),), 1.0), "conv2": ((0,), 1.0)}))
    filled = carry_weights(first, port)
    for key in ("fc", "conv1", "conv2"):
        np.testing.assert_array_equal(stored(filled, key), stored(second, key))


def chain(*, is_port: bool):
    """A convolution and a dense layer; as a port with a pad, a product and a sum, and channels last."""
    builder = GraphBuilder("chain", format="onnx")

    def layer(name):
        return builder.layer(Layer(name, name, name))

    def array(name, shape):
        return builder.parameter(Parameter(name, shape), recipe.weight(f"{name} {is_port}", shape, "filter"))

    with layer("input"):
        x = builder.input("data", (1, 5, 7, 3) if is_port else (1, 3, 5, 7))
        x = builder.add("Transpose", [x], {"perm": [0, 3, 1, 2]}) if is_port else x
    with layer("conv"):
        pads = [1, 1, 1, 1]
        if is_port:
            x = builder.add("Pad", [x, builder.constant([0, 0, 1, 1, 0, 0, 1, 1], dtype=np.int64)])
            pads = [0, 0, 0, 0]
        x = builder.add("Conv", [x, array("w", (4, 3, 3, 3)), array("b", (4,))], {"pads": pads})
        x = builder.add("Relu", [x])
    with layer("dense"):
        x = builder.add("Transpose", [x], {"perm": [0, 2, 3, 1]}) if is_port else x
        x = builder.add("Flatten", [x])
        if is_port:
            x = builder.add("Add", [builder.add("MatMul", [x, array("v", (140, 6))]), array("c", (6,))])
        else:
            x = builder.add("Gemm", [x, array("v", (6, 140)), array("c", (6,))], {"transB": 1})
    return builder.finish([x])


@pytest.mark.parametrize("back", [False, True])
def test_a_port_may_cut_its_layers_in_another_way(back):
    net, port = chain(is_port=back), chain(is_port=not back)
    filled = carry_weights(net, port)
    image = recipe.uniform("image", (2, 3, 5, 7))
    found = [
        next(iter(netweave.run(graph, {"data": image.transpose(0, 2, 3, 1) if last else image}).values()))
        for graph, last in ((net, back), (filled, not back))
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-5)
    assert np.abs(found[0]).max() > 0.1
    columns = stored(filled, "v"), stored(net, "v")
    dense = [array if len(array) == 6 else array.T for array in columns]
    assert (dense[0] != dense[1]).any()
    np.testing.assert_array_equal(np.sort(dense[0], axis=1), np.sort(dense[1], axis=1))
