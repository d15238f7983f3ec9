"""Graphs of TensorFlow that this project did not write (tests/models of tensorflow-onnx)."""

from __future__ import annotations

import numpy as np
import pytest

import netweave

pytestmark = pytest.mark.corpus


def test_a_regression_is_the_same_line_frozen_and_as_a_saved_model(corpus):
    x = np.float32([-1, 0, 1, 2.5])
    nets = [
        netweave.load(corpus / "tensorflow" / "regression" / form, input_shapes={"X": (4,)})
        for form in ("graphdef/frozen.pb", "saved_model")
    ]
    lines = [next(iter(netweave.run(net, {"X": x}).values())) for net in nets]
    for line in lines:
        slope = line[2] - line[1]
        assert slope != 0
        np.testing.assert_allclose(line, line[1] + slope * x, rtol=1e-5)


def test_an_lstm_without_its_dropout_is_read(corpus):
    graph = netweave.load(corpus / "tensorflow" / "lstm" / "frozen.pb")
    assert "keep_prob" not in [value.name for value in graph.inputs]
    assert sum(layer.type == "BiasAdd" for layer in graph.layers.values()) == 28
    (out,) = netweave.run(graph, {"X": np.ones((3, 784), np.float32)}).values()
    assert out.shape == (3, 10)
    assert np.isfinite(out).all()
