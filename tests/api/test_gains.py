"""What a net gains by being written for inference."""

from __future__ import annotations

import numpy as np
import pytest

from netweave import api
from tests.formats.onnx.models import load, model, node
from tests.formats.written_nets import NORM, drawn


@pytest.fixture(autouse=True)
def short_trials(monkeypatch):
    """Which backend is chosen does not matter here, or is told apart by far."""
    monkeypatch.setattr("netweave.runtime.backends.selection.BLOCK_S", 0.002)
    monkeypatch.setattr("netweave.runtime.backends.selection.BUDGET_S", 0.05)


def test_nodes_elements_and_products_are_those_of_the_formulas(tmp_path):
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c g be m v", "n"),
        node("Relu", "n", "y"),
    ]
    graph = load(model(nodes, {"x": ["N", 6, 9, 8]}, ["y"], {"w": drawn(6, 6, 3, 3), **NORM}), tmp_path)
    gain = api.gain_of(graph, api.to_inference(graph, folded=True), rounds=2)
    weights, products = 6 * 6 * 9, 6 * 6 * 9 * 9 * 8
    assert (gain.before.nodes, gain.after.nodes) == (3, 2)
    assert (gain.before.elements, gain.after.elements) == (weights + 4 * 6, weights + 6)
    assert gain.before.multiply_adds == gain.after.multiply_adds == products
    for each in (gain.before, gain.after):
        assert 0 < each.fastest_s <= each.median_s
        assert np.isfinite(each.median_s)
