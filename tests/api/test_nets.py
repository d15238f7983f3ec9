"""Loading by names, and the form in which a net predicts."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import netweave
from examples.padding import demo, make_weights
from netweave import api
from netweave.comparison import Verdict
from netweave.errors import UsageError
from netweave.formats import read
from netweave.graph import stored_arrays, with_arrays
from tests.comparison.nets import build, without


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("leaves")
    for file in (demo.NET, demo.PORT):
        shutil.copy(file, place)
    make_weights.write(place)
    return place


def test_weights_are_named_after_a_comma_beside_or_as_an_argument(folder):
    net, weights = folder / "leaves.prototxt", folder / "leaves.caffemodel"
    named = [netweave.load(f"{net},{weights}"), netweave.load(net), netweave.load(net, weights)]
    assert [graph.files for graph in named] == [(str(net), str(weights))] * 3
    with pytest.raises(UsageError, match="weights are given twice"):
        netweave.load(f"{net},{weights}", weights)


def test_a_comma_in_the_name_of_a_file_is_part_of_the_name(folder):
    net = folder / "leaves,caffe.prototxt"
    shutil.copy(folder / "leaves.prototxt", net)
    assert netweave.load(net).files[0] == str(net)


def test_to_inference_leaves_dropout_and_labels_out_and_changes_nothing_else(folder):
    port = netweave.load(folder / "leaves-symbol.json")
    drawn = api.draw_inputs(api.to_inference(port), 1)
    (expected,) = netweave.run(port, {**drawn, "softmax_label": np.zeros(1, np.float32)}).values()
    for folded in (False, True):
        graph = api.to_inference(port, folded=folded)
        assert [value.name for value in graph.inputs] == ["image"]
        (found,) = netweave.run(graph, drawn).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert len(port.inputs) == 2
    assert "BatchNormalization" not in {node.op_type for node in graph.nodes}


def test_drawn_inputs_fit_the_matrices_behind_open_sizes(folder):
    drawn = api.draw_inputs(api.to_inference(netweave.load(folder / "leaves-symbol.json")), 1)
    assert {name: array.shape for name, array in drawn.items()} == {"image": (1, 3, 32, 32)}


def test_what_was_written_must_hold_the_drawn_weights(tmp_path, monkeypatch):
    """A writer that mixes arrays up would pass, if weights were copied before the comparison."""
    net = without(build())
    assert (
        api.convert_and_verify(net, tmp_path / "right.onnx", random_weights=True).verdict is Verdict.IDENTICAL
    )

    def mixed_up(source):
        graph = read(source)
        return with_arrays(graph, {"conv2": stored_arrays(graph)["conv2"][::-1].copy()})

    monkeypatch.setattr("netweave.api.writing.read", mixed_up)
    found = api.convert_and_verify(net, tmp_path / "wrong.onnx", random_weights=True)
    assert (found.verdict, found.exit_status) == (Verdict.DIFFERENT, 1)
