"""Parts cut out of graphs compute what the whole computes."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.graph.passes import Extractor, extract
from netweave.runtime.backends import prepare
from tests.graph.passes.nets import branching_net

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype(np.float32)


def test_a_part_gives_the_values_of_the_whole():
    graph = branching_net()
    whole = prepare(graph, taps=["relu1", "sum"]).run({"data": X})
    part = extract(graph, inputs=["relu1"], outputs=["sum"])
    assert [value.name for value in part.inputs] == ["relu1"]
    assert [node.op_type for node in part.nodes] == ["MaxPool", "Conv", "Add"]
    assert list(part.layers) == ["pool1", "conv2", "sum"]
    assert list(part.parameters) == ["conv2/0"]
    found = prepare(part).run({"relu1": whole["relu1"]})
    np.testing.assert_array_equal(found["sum"], whole["sum"])


def test_a_part_is_a_copy():
    graph = branching_net()
    part = extract(graph, inputs=["relu1"], outputs=["conv2"])
    next(iter(part.nodes)).attributes.pop("pads")
    assert "pads" in graph.values()["conv2"].producer().attributes
    assert graph.values()["relu1"].producer() is not None


def test_an_initializer_can_become_an_input():
    graph = branching_net()
    part = extract(graph, inputs=["relu1", "conv2/0"], outputs=["conv2"])
    assert [value.name for value in part.inputs] == ["relu1", "conv2/0"]
    x = np.ones((1, 4, 8, 8), np.float32)
    found = prepare(part).run({"relu1": x, "conv2/0": np.ones((4, 4, 3, 3), np.float32)})
    rows = np.array([2, 3, 3])  # of a window's three, those inside the image
    np.testing.assert_array_equal(found["conv2"][0, 0], 4 * np.outer(rows, rows))


def test_outputs_that_are_inputs_or_initializers():
    part = extract(branching_net(), inputs=["relu1"], outputs=["relu1", "conv2/0"])
    x = np.ones((1, 4, 8, 8), np.float32)
    found = prepare(part).run({"relu1": x})
    np.testing.assert_array_equal(found["relu1"], x)
    assert found["conv2/0"].shape == (4, 4, 3, 3)


def test_what_else_is_needed_is_named():
    extractor = Extractor(branching_net())
    with pytest.raises(UsageError, match="also needed as inputs: 'data'"):
        extractor.extract(inputs=["pool1"], outputs=["sum"])
    with pytest.raises(UsageError, match="no value named 'nowhere'"):
        extractor.extract(inputs=["nowhere"], outputs=["sum"])
