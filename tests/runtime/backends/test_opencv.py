"""Graphs run by OpenCV's DNN module."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("cv2")

import cv2

from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Parameter
from netweave.runtime.backends import Purpose, RunSettings, prepare
from netweave.runtime.backends.opencv import Net
from tests.graph.passes.nets import branching_net

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def convolutions(*, channels=16, layers=3):
    """3 x 3 convolutions and ReLUs, then a mean, of float32 weights that keep the size of values."""
    builder = GraphBuilder("convolutions", format="onnx")
    x, wide = builder.input("data", ("N", 3, 24, 24)), 3
    rng = np.random.default_rng(1)
    for layer in range(layers):
        shape = (channels, wide, 3, 3)
        w = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))
        stored = builder.parameter(Parameter(f"w{layer}", shape), w.astype(np.float32))
        x = builder.add("Conv", [x, stored], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
        x, wide = builder.add("Relu", [x]), channels
    return builder.finish([builder.add("GlobalAveragePool", [x], outputs="y")])


@pytest.mark.parametrize("purpose", Purpose)
def test_a_net_of_convolutions_is_one_segment_at_any_batch_size(purpose):
    graph = convolutions()
    runner = prepare(
        graph, backend="opencv", settings=RunSettings(purpose, usual_sizes={"data": (1, 3, 24, 24)})
    )
    for batch in (1, 3, 2):
        x = np.random.default_rng(batch).standard_normal((batch, 3, 24, 24)).astype(np.float32)
        expected = prepare(graph).run({"data": x})["y"]
        np.testing.assert_allclose(runner.run({"data": x})["y"], expected, rtol=1e-3, atol=1e-5)
        (step,) = runner.at({"data": x.shape}).steps
        assert isinstance(step, Net)


def test_minimal_filtering_is_for_many_runs_alone():
    """Its sums are of other products, so that roundings differ; what is tapped must not depend on them."""
    graph = convolutions(channels=64)
    x = {"data": np.random.default_rng(0).standard_normal((1, 3, 24, 24)).astype(np.float32)}
    expected = prepare(graph).run(x)["y"].astype(np.float64)
    errors = {}
    for purpose in Purpose:
        found = prepare(graph, backend="opencv", settings=RunSettings(purpose)).run(x)["y"]
        errors[purpose] = np.abs(found - expected).max()
    assert errors[Purpose.TAPPING] < errors[Purpose.INFERENCE] < 1e-4 * np.abs(expected).max()


def test_threads_are_set_for_a_run_alone():
    before = cv2.getNumThreads()
    graph = convolutions()
    seen = []

    class Watched:
        def setInput(self, array, name):  # noqa: N802 (OpenCV's name)
            seen.append(cv2.getNumThreads())

        def forward(self, names):
            return [np.zeros(1)]

    Net(Watched(), before + 1, ("data",), ("y",)).run({"data": X})
    assert seen == [before + 1]
    assert cv2.getNumThreads() == before
    with ThreadPoolExecutor(4) as threads:
        runners = [prepare(graph, backend="opencv", settings=RunSettings(threads=n)) for n in (1, 2)]
        x = np.random.default_rng(2).standard_normal((1, 3, 24, 24)).astype(np.float32)
        expected = prepare(graph).run({"data": x})["y"]
        for made in [threads.submit(runner.run, {"data": x}) for runner in runners * 8]:
            np.testing.assert_allclose(made.result()["y"], expected, rtol=1e-3, atol=1e-5)
    assert cv2.getNumThreads() == before


def test_half_precision_is_refused():
    with pytest.raises(UsageError, match="OpenCV computes in f32 on a CPU, not in bf16"):
        prepare(branching_net(), backend="opencv", settings=RunSettings(precision="bf16"))
