"""Weights that are carried to a port whose layers are cut, padded and flattened in another way."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison.align.weights import stand_in
from netweave.comparison.weight_transfer import transfer_weights
from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Layer, Parameter
from tests.comparison.nets import Form, build
from tests.oracles import recipe


def stored(graph, key):
    (value,) = (v for v in graph.model.graph.initializers.values() if v.name == key)
    return value.const_value.numpy()


@pytest.mark.parametrize("directions", [("CHW", "HWC"), ("HWC", "CHW")])
def test_dense_weights_follow_the_order_of_the_flatten(directions):
    first, second = (build(Form(flatten=order)) for order in directions)
    port = build(Form(flatten=directions[1], changed={"fc": ((slice(None),), 1.0), "conv2": ((0,), 1.0)}))
    filled = transfer_weights(first, port)
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
    filled = transfer_weights(net, port)
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


def classifier(*, window: bool, seed: str, last: bool = False):
    """A convolution and its classifier: a dense layer, or a convolution whose window is all that there is."""
    builder = GraphBuilder("net", format="onnx")

    def array(name, shape):
        return builder.parameter(Parameter(name, shape), recipe.weight(f"{name} {seed}", shape, "filter"))

    with builder.layer(Layer("input", "input", "input")):
        x = builder.input("data", (1, 3, 4, 5))
    with builder.layer(Layer("conv", "conv", "conv")):
        x = builder.add("Conv", [x, array("w", (6, 3, 3, 3)), array("b", (6,))], {"pads": [1, 1, 1, 1]})
        x = builder.add("Relu", [x])
    with builder.layer(Layer("classes", "classes", "classes")):
        if window:
            x = builder.add("Flatten", [builder.add("Conv", [x, array("v", (7, 6, 4, 5)), array("c", (7,))])])
        else:
            x = builder.add("Transpose", [x], {"perm": [0, 2, 3, 1]}) if last else x
            x = builder.add("Gemm", [builder.add("Flatten", [x]), array("v", (120, 7)), array("c", (7,))])
    return builder.finish([x])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("window", [False, True])
def test_a_convolution_over_all_that_there_is_stands_for_a_dense_layer(window, last):
    net = classifier(window=window, seed="net", last=last)
    filled = transfer_weights(net, classifier(window=not window, seed="port", last=last))
    image = recipe.uniform("image", (2, 3, 4, 5))
    found = [next(iter(netweave.run(graph, {"data": image}).values())) for graph in (net, filled)]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-5)
    assert np.abs(found[0]).max() > 0.1


@pytest.mark.parametrize(
    ("a", "b", "fits"),
    [
        (("Conv", (7, 6, 1, 1)), ("Gemm", (6, 7)), True),
        (("Conv", (7, 6, 4, 5)), ("MatMul", (120, 7)), True),
        (("Conv", (7, 6, 1, 1)), ("Gemm", (7, 6)), False),
        (("ConvTranspose", (6, 7, 1, 1)), ("Gemm", (6, 7)), False),
        (("Relu", ()), ("Gemm", (6, 7)), False),
    ],
)
def test_dense_layers_and_convolutions_stand_for_each_other_by_their_weights(a, b, fits):
    def node(op_type, shape):
        builder = GraphBuilder("net", format="onnx")
        x = builder.input("data", (1, shape[0]) if len(shape) == 2 else (1, 6, 4, 5))
        stored = [builder.parameter(Parameter("w", shape), np.ones(shape, np.float32))] if shape else []
        return builder.add(op_type, [x, *stored]).producer()

    assert stand_in(node(*a), node(*b)) is fits
    assert stand_in(node(*b), node(*a)) is fits


def stack(widths, *, activation="Relu", size=12, kernel=3, flatten=False):
    """Convolutions of so many filters, each with an activation, and a dense layer over the means."""
    builder = GraphBuilder("stack", format="onnx", files=(f"{activation}.onnx",))
    x, channels = builder.input("data", (1, 3, size, size)), 3
    for number, width in enumerate(widths):
        with builder.layer(Layer(f"conv{number}", f"conv{number}", "Conv")):
            shape = (width, channels, kernel, kernel)
            w = builder.parameter(
                Parameter(f"w{number}", shape), recipe.weight(f"w{number}", shape, "filter")
            )
            x, channels = builder.add("Conv", [x, w]), width
        with builder.layer(Layer(f"act{number}", f"act{number}", activation)):
            x = builder.add(activation, [x])
    with builder.layer(Layer("classes", "classes", "Gemm")):
        x = builder.add("Flatten", [x if flatten else builder.add("GlobalAveragePool", [x])])
        channels *= (size - len(widths) * (kernel - 1)) ** 2 if flatten else 1
        v = builder.parameter(Parameter("v", (channels, 4)), recipe.weight("v", (channels, 4), "filter"))
        x = builder.add("Gemm", [x, v])
    return builder.finish([x])


@pytest.mark.parametrize(
    ("port", "message"),
    [
        (
            stack([8, 6], activation="Tanh"),
            r"Tanh.onnx: they differ first at act0: A computes Relu, B computes Tanh, and at 1 more",
        ),
        (
            stack([8, 7]),
            r"first at conv1: A has 6 filters, B has 7.*; no counterpart .* 2 of 3 stored .* \(w1, v\)",
        ),
        (
            stack([9, 9, 9]),
            r"no counterpart was found for 4 of 4 stored arrays \(w0, w1, w2, v\); see netweave compare",
        ),
        (
            stack([8, 6], kernel=5),
            r"conv0: the window of the filters is 3x3 in A and 5x5 in B, and .*; .* 2 of 3 .*\(w0, w1\)",
        ),
    ],
    ids=["activation", "one width", "all widths", "kernel"],
)
def test_a_refusal_says_where_the_nets_differ_first(port, message):
    with pytest.raises(UsageError, match=message):
        transfer_weights(stack([8, 6]), port)


def test_a_refusal_says_which_inputs_do_not_fit():
    with pytest.raises(
        UsageError, match=r"the inputs are data .*3x12x12 and data .*3x9x9, and no size fits both"
    ):
        transfer_weights(stack([8, 6], flatten=True), stack([8, 6], size=9, flatten=True))


def test_a_number_is_carried_as_a_number():
    """A factor without axes, as CLIP's temperature: a list of one in its place would not be its array."""

    def net(name, number):
        builder = GraphBuilder(name, format="onnx")
        x = builder.input("data", (1, 6))
        scale = builder.parameter(Parameter(f"{name}/scale", ()), np.float32(number))
        w = builder.parameter(Parameter(f"{name}/w", (6, 5)), recipe.weight(name, (6, 5), "filter"))
        return builder.finish([builder.add("Mul", [builder.add("MatMul", [x, w]), scale], outputs="y")])

    filled = transfer_weights(net("a", 2.5), net("b", 1.0))
    assert stored(filled, "b/scale").shape == ()
    assert stored(filled, "b/scale") == np.float32(2.5)
