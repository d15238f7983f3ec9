"""Graphs run by OpenVINO."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")

import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph import GraphBuilder
from netweave.runtime.backends import prepare

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def test_precision_is_that_of_float32():
    """Sums of 4096 products: bfloat16 would err by some percent, float32 by about 1e-6."""
    builder = GraphBuilder("dense", format="onnx")
    rng = np.random.default_rng(1)
    w = rng.standard_normal((4096, 8)).astype(np.float32)
    x = builder.input("data", (1, 4096))
    net = prepare(
        builder.finish([builder.add("MatMul", [x, builder.constant(w)], outputs="y")]), backend="openvino"
    )
    data = rng.standard_normal((4, 4096)).astype(np.float32)
    expected = data.astype(np.float64) @ w
    assert np.abs(net.run({"data": data})["y"] - expected).max() < 1e-5 * np.sqrt(np.mean(expected**2))


@pytest.mark.parametrize("bias", [0.5, 1.0, 1.5, 2.0])
def test_a_fractional_bias_of_a_local_response_normalisation_is_kept(bias):
    builder = GraphBuilder("lrn", format="onnx")
    x = builder.input("data", (1, 3, 8, 8))
    settings = {"size": 3, "alpha": 0.5, "beta": 0.75, "bias": bias}
    graph = builder.finish([builder.add("LRN", [x], settings, outputs="y")])
    squares = np.pad(X**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    found = prepare(graph, backend="openvino").run({"data": X})["y"]
    np.testing.assert_allclose(found, X / (bias + 0.5 / 3 * sums) ** 0.75, rtol=1e-4)


def test_what_openvino_lacks_is_said():
    builder = GraphBuilder("noise", format="onnx")
    x = builder.input("data", (1, 4))
    graph = builder.finish([x])
    made = ir.Node("com.example", "Noise", [x], outputs=[ir.Value(name="y")])
    graph.model.graph.append(made)
    with pytest.raises(RunError, match=r"neither OpenVINO nor Netweave has the operators com.example::Noise"):
        prepare(graph, backend="openvino")
