"""Costs by formula, and the published figures of AlexNet."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import GraphBuilder, Layer, Parameter, layer_costs, node_cost, total_cost
from tests.graph.test_shapes import one_node


def drawn(builder, key, shape, role="weight"):
    return builder.parameter(Parameter(key, shape, role, loaded=False), None)


ALEXNET = [  # name, output channels, kernel, stride, pad, groups, pooled: Krizhevsky et al. 2012, one tower
    ("conv1", 96, 11, 4, 0, 1, True),
    ("conv2", 256, 5, 1, 2, 2, True),
    ("conv3", 384, 3, 1, 1, 1, False),
    ("conv4", 384, 3, 1, 1, 2, False),
    ("conv5", 256, 3, 1, 1, 2, True),
]


def alexnet(*, grouped):
    builder = GraphBuilder("alexnet", format="caffe")
    x, channels = builder.input("data", (10, 3, 227, 227)), 3
    for name, width, kernel, stride, pad, groups, pooled in ALEXNET:
        groups = groups if grouped else 1
        shape = (width, channels // groups, kernel, kernel)
        with builder.layer(Layer(name, name, "Convolution", parameters=(f"{name}/0", f"{name}/1"))):
            arrays = [drawn(builder, f"{name}/0", shape), drawn(builder, f"{name}/1", (width,), "bias")]
            attributes = {"strides": [stride] * 2, "pads": [pad] * 4, "group": groups}
            x, channels = builder.add("Conv", [x, *arrays], attributes, outputs=name), width
        if pooled:
            x = builder.add("MaxPool", [x], {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1})
    x = builder.add("Flatten", [x])
    for name, width, inputs in (("fc6", 4096, 9216), ("fc7", 4096, 4096), ("fc8", 1000, 4096)):
        with builder.layer(Layer(name, name, "InnerProduct", parameters=(f"{name}/0", f"{name}/1"))):
            arrays = [
                drawn(builder, f"{name}/0", (width, inputs)),
                drawn(builder, f"{name}/1", (width,), "bias"),
            ]
            x = builder.add("Gemm", [x, *arrays], {"transB": 1}, outputs=name)
    return builder.finish([x])


@pytest.mark.parametrize(
    ("grouped", "multiply_adds", "parameters"),
    [(True, 724_406_816, 60_965_224), (False, 1_135_256_096, 62_378_344)],
    ids=["two groups", "ungrouped"],
)
def test_alexnet_costs_what_is_known(grouped, multiply_adds, parameters):
    cost = total_cost(alexnet(grouped=grouped))
    assert (cost.multiply_adds, cost.parameters, cost.exact) == (multiply_adds, parameters, True)


def test_layers_add_up_to_the_net():
    graph = alexnet(grouped=True)
    costs = dict(zip(graph.layers, layer_costs(graph, batch=4), strict=True))
    assert costs["conv1"].multiply_adds == 4 * 55 * 55 * 96 * 11 * 11 * 3
    assert costs["conv1"].activation_bytes == 4 * 55 * 55 * 96 * 4
    assert costs["conv1"].parameters == 96 * 3 * 121 + 96
    assert sum(cost.multiply_adds for cost in costs.values()) == 4 * 724_406_816
    assert sum(cost.parameters for cost in costs.values()) == 60_965_224


@pytest.mark.parametrize(
    ("op_type", "shapes", "attributes", "expected"),
    [
        ("Conv", [("N", 6, 9, 9), (4, 3, 3, 3)], {"group": 2}, 2 * 4 * 7 * 7 * 3 * 9),
        ("Conv", [("N", 6, 9), (6, 1, 3)], {"group": 6, "dilations": [2]}, 2 * 6 * 5 * 3),
        (
            "ConvTranspose",
            [("N", 6, 5, 4), (6, 2, 4, 4)],
            {"group": 2, "strides": [2, 2]},
            2 * 6 * 20 * 2 * 16,
        ),
        ("Gemm", [("N", 7), (5, 7)], {"transB": 1}, 2 * 5 * 7),
        ("Gemm", [(7, "N"), (7, 5)], {"transA": 1}, 2 * 5 * 7),
        ("MatMul", [("N", 3, 4, 5), (5, 6)], {}, 2 * 3 * 4 * 5 * 6),
        ("MatMul", [("N", 1, 4, 5), (1, 3, 5, 6)], {}, 2 * 3 * 4 * 5 * 6),
        ("MatMul", [(5,), (5,)], {}, 5),
        ("LSTM", [(7, "N", 3), (1, 16, 3), (1, 16, 4)], {"hidden_size": 4}, 7 * 2 * 4 * (4 * 3 + 4 * 4)),
        ("Relu", [("N", 6)], {}, 0),
    ],
)
def test_multiply_adds_by_formula(op_type, shapes, attributes, expected):
    (node,) = one_node(op_type, shapes, attributes).nodes
    cost = node_cost(node, batch=2)
    assert (cost.multiply_adds, cost.exact) == (expected, True)


def test_a_batch_that_is_folded_into_another_axis_counts():
    builder = GraphBuilder("rows", format="mxnet")
    x = builder.input("x", (1, 4, 6))
    rows = builder.add("Reshape", [x, builder.constant([-1, 6], dtype=np.int64)])
    graph = builder.finish([builder.add("Gemm", [rows, drawn(builder, "w", (6, 5))], outputs="y")])
    assert total_cost(graph, batch=3).multiply_adds == 3 * 4 * 5 * 6
    assert total_cost(graph, batch=3).activation_bytes == 3 * 4 * (6 + 5) * 4


def test_an_unknown_size_makes_a_lower_bound():
    (node,) = one_node("Conv", [("N", 3, None, 8), (4, 3, 3, 3)]).nodes
    cost = node_cost(node)
    assert (cost.multiply_adds, cost.activation_bytes, cost.exact) == (0, 0, False)


def test_a_shared_parameter_counts_once_in_the_net():
    builder = GraphBuilder("twins", format="caffe")
    x = builder.input("x", (1, 6))
    for name in ("a", "b"):
        with builder.layer(Layer(name, name, "InnerProduct", parameters=("w",))):
            shared = builder.add("Gemm", [x, drawn(builder, "w", (6, 6))])
            x = shared
    graph = builder.finish([x])
    assert [cost.parameters for cost in layer_costs(graph)] == [36, 36]
    assert [node_cost(node).parameters for node in graph.nodes] == [36, 36]
    assert total_cost(graph).parameters == 36
