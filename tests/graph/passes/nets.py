"""Small nets that the tests of passes and backends run."""

from __future__ import annotations

import numpy as np

from netweave.graph import GraphBuilder, Layer, Parameter


def weight(builder, key, shape, role="weight", scale=0.5):
    seed = sum(key.encode())
    array = np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(scale)
    return builder.parameter(Parameter(key, tuple(shape), role), array)


def branching_net():
    """data -> conv1 -> relu1 -> (pool by netweave | conv2) -> sum -> fc."""
    builder = GraphBuilder("branching", format="caffe", files=("net.prototxt",))
    data = builder.input("data", (1, 3, 8, 8))
    with builder.layer(Layer("conv1", "conv1", "Convolution")):
        x = builder.add(
            "Conv",
            [data, weight(builder, "conv1/0", (4, 3, 3, 3)), weight(builder, "conv1/1", (4,), "bias")],
            {"pads": [1, 1, 1, 1]},
            outputs="conv1",
        )
    with builder.layer(Layer("relu1", "relu1", "ReLU")):
        x = builder.add("Relu", [x], outputs="relu1")
    with builder.layer(Layer("pool1", "pool1", "Pooling")):
        attributes = {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [0] * 4, "rounding": "full"}
        left = builder.add("MaxPool", [x], attributes, domain="netweave", outputs="pool1")
    with builder.layer(Layer("conv2", "conv2", "Convolution")):
        right = builder.add(
            "Conv",
            [x, weight(builder, "conv2/0", (4, 4, 3, 3))],
            {"strides": [3, 3], "pads": [1] * 4},
            outputs="conv2",
        )
    with builder.layer(Layer("sum", "sum", "Eltwise")):
        x = builder.add("Add", [left, right], outputs="sum")
    with builder.layer(Layer("fc", "fc", "InnerProduct")):
        x = builder.add("Flatten", [x])
        x = builder.add("Gemm", [x, weight(builder, "fc/0", (36, 5))], outputs="fc")
    return builder.finish([x])
