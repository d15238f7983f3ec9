"""Passes of the writers: channels first at the ends, padding in windows, biases in dense layers."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph.passes import absorb_biases, absorb_pads, channels_first
from tests.formats.onnx.models import load, model, node
from tests.formats.written_nets import NETS, drawn, ints, net

LAST = model(
    [
        node("Pad", "x p", "z"),
        node("Transpose", "z", "t", perm=[0, 3, 1, 2]),
        node("Conv", "t w", "c", strides=[2, 2]),
        node("Relu", "c", "r"),
        node("Transpose", "r", "l", perm=[0, 2, 3, 1]),
        node("Flatten", "l", "f"),
        node("MatMul", "f k", "m"),
        node("Add", "m b", "y"),
    ],
    {"x": ["N", 9, 8, 6]},
    ["y"],
    {"p": ints(0, 0, 1, 0, 0, 1, 0, 0), "w": drawn(4, 6, 3, 3), "k": drawn(64, 5), "b": drawn(5)},
)
"""A net with channels last: padded, flattened before a dense layer."""


def ops(graph: netweave.Graph) -> list[str]:
    return [each.op_type for each in graph.nodes]


def test_a_net_of_channels_last_needs_no_transposes(tmp_path):
    graph = load(LAST, tmp_path)
    plain = absorb_biases(absorb_pads(channels_first(graph)))
    assert ops(plain) == ["Conv", "Relu", "Flatten", "Gemm"]
    assert plain.inputs[0].shape[1:] == (6, 9, 8)
    x = np.random.default_rng(0).normal(size=(2, 9, 8, 6)).astype(np.float32)
    [expected] = netweave.run(graph, {"x": x}).values()
    [found] = netweave.run(plain, {"x": np.moveaxis(x, -1, 1)}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert ops(graph)[0] == "Pad"  # the graph that was given is as it was


def test_an_input_that_is_read_otherwise_too_stays(tmp_path):
    graph = load(
        model(
            [node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Relu", "t", "y"), node("Relu", "x", "z")],
            {"x": ["N", 9, 8, 6]},
            ["y", "z"],
        ),
        tmp_path,
    )
    assert channels_first(graph).inputs[0].shape[1:] == (9, 8, 6)


@pytest.mark.parametrize(
    ("before", "reader", "goes"),
    [
        ("Relu", node("MaxPool", "z", "y", kernel_shape=[3, 3]), True),
        ("Tanh", node("MaxPool", "z", "y", kernel_shape=[3, 3]), False),
        ("Tanh", node("AveragePool", "z", "y", kernel_shape=[3, 3]), True),
        ("Tanh", node("AveragePool", "z", "y", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), False),
        ("Relu", node("MaxPool", "z", "y", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1), False),
        ("Relu", node("MaxPool", "z", "y", kernel_shape=[1, 1]), False),
    ],
)
def test_padding_goes_into_a_pooling_only_where_it_is_the_same(before, reader, goes, tmp_path):
    made = net([node(before, "x", "r"), node("Pad", "r p", "z"), reader], {"p": ints(0, 0, 1, 1, 0, 0, 1, 1)})
    graph = load(made, tmp_path)
    found = absorb_pads(graph)
    assert ("Pad" not in ops(found)) == goes
    x = np.random.default_rng(0).normal(size=(2, 6, 9, 8)).astype(np.float32)
    for array, wanted in zip(
        netweave.run(found, {"x": x}).values(), netweave.run(graph, {"x": x}).values(), strict=True
    ):
        np.testing.assert_allclose(array, wanted, rtol=1e-5, atol=1e-6)


def test_a_pad_that_others_read_stays_for_them(tmp_path):
    made = model(
        [node("Pad", "x p", "z"), node("Conv", "z w", "y")],
        {"x": ["N", 6, 9, 8]},
        ["y", "z"],
        {"p": ints(0, 0, 1, 1, 0, 0, 1, 1), "w": drawn(4, 6, 3, 3)},
    )
    found = absorb_pads(load(made, tmp_path))
    assert ops(found) == ["Pad", "Conv"]
    assert found.nodes[1].inputs[0].name == "x"


def test_other_paddings_stay(tmp_path):
    made = net([node("Pad", "x p", "z", mode="edge"), node("Conv", "z w", "y")],
               {"p": ints(0, 0, 1, 1, 0, 0, 1, 1), "w": drawn(4, 6, 3, 3)})  # fmt: skip
    assert ops(absorb_pads(load(made, tmp_path))) == ["Pad", "Conv"]


def test_a_scale_behind_a_dense_layer_is_no_bias(tmp_path):
    made = net(
        [node("Flatten", "x", "f"), node("MatMul", "f w", "m"), node("Mul", "m b", "y")],
        {"w": drawn(432, 5), "b": drawn(5)},
    )
    assert ops(absorb_biases(load(made, tmp_path))) == ["Flatten", "MatMul", "Mul"]
    assert ops(absorb_biases(load(NETS["dense with a bias behind"], tmp_path))) == ["Flatten", "Gemm"]
