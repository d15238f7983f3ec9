"""Graphs run by OpenVINO: what it does not refuse is right."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")
pytest.importorskip("torch")  # which says what of a node test is a setting

import onnx_ir as ir

from netweave.backends import Purpose, RunSettings, prepare
from netweave.errors import RunError
from netweave.graph import OPSET, GraphBuilder
from tests.backends.torch.test_node_cases import OURS, with_constant_settings
from tests.passes.nets import branching_net

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)

REFUSED = ("rejects the net", "cannot run the net")

ROUNDED_DIFFERENTLY = {
    "resize_downsample_scales_cubic_align_corners",
    "resize_downsample_scales_linear_align_corners",
}
"""ONNX Runtime and OpenVINO take the rounded size for the sides, ONNX's reference scale times size."""


def is_fit(case):
    dtypes = {array.dtype.name for array in (*case.inputs.values(), *case.outputs.values())}
    return (
        len(case.graph.nodes) == 1
        and case.graph.model.opset_imports[""] == OPSET
        and dtypes <= {"float32", "int32", "int64", "bool"}
        and all(array.size for array in (*case.inputs.values(), *case.outputs.values()))
    )


CASES = [case for case in OURS if is_fit(case) and case.name not in ROUNDED_DIFFERENTLY]


@pytest.mark.slow
@pytest.mark.parametrize("purpose", Purpose)
@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CASES])
def test_node_case_is_right_or_refused(case, purpose):
    stored = with_constant_settings(case)
    try:
        found = prepare(stored.graph, backend="openvino", settings=RunSettings(purpose)).run(stored.inputs)
    except RunError as error:
        if any(text in str(error) for text in REFUSED):
            return
        raise
    for name, array in case.outputs.items():
        assert found[name].shape == array.shape
        rms = np.sqrt(np.mean(np.square(array, dtype=np.float64)))
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4 * rms, err_msg=name)


@pytest.mark.parametrize("batch", [1, 3])
def test_agrees_with_onnx_runtime_with_the_registry_in_between(batch):
    graph, x = branching_net(), np.repeat(X[:1], batch, axis=0)
    taps = [value.name for node in graph.nodes for value in node.outputs]
    expected = prepare(graph, taps=taps).run({"data": x})
    found = prepare(graph, taps=taps, backend="openvino", settings=RunSettings(threads=1)).run({"data": x})
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)


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
