"""The MXNet nets of the corpus: counts and shapes known from their files."""

from __future__ import annotations

import pytest

from netweave.errors import ShapeError
from netweave.files import Source
from netweave.formats.mxnet import match
from netweave.formats.mxnet.reader import read

TRAINED = {
    # file: layers, stored elements, shapes of inputs and outputs for batch and, where open, size
    "mtcnn/det1-symbol.json": (10, 6632, ["data"], ["conv4_2_output", "prob1_output"]),
    "mtcnn/det2-symbol.json": (13, 100178, ["data", "prob1_label"], ["conv5_2_output", "prob1_output"]),
}


@pytest.mark.parametrize("name", TRAINED)
def test_trained_nets_find_their_weights(corpus, name):
    source = Source(corpus / name)
    assert match(source)
    graph = read(source)
    layers, num_parameters, inputs, outputs = TRAINED[name]
    assert (len(graph.layers), graph.num_parameters) == (layers, num_parameters)
    assert [value.name for value in graph.inputs] == inputs
    assert [value.name for value in graph.outputs] == outputs
    assert graph.loaded
    assert graph.declared["data"] == (None, 3, None, None)


def test_layers_know_their_line_and_arrays(corpus):
    graph = read(Source(corpus / "mtcnn/det1-symbol.json"))
    layer = graph.layers["conv1"]
    assert layer.origin.line == 24
    assert layer.settings["kernel"] == "(3,3)"
    assert layer.parameters == ("conv1_weight", "conv1_bias")
    assert (layer.inputs, layer.outputs) == (("data",), ("conv1_output",))


@pytest.mark.parametrize(
    "name",
    [
        "mxnet/v0.9.5/tests__python__unittest__save_000800.json",
        "mxnet/1.5.0/contrib__clojure-package__examples__imclassification__test__test-symbol.json.ref",
    ],
)
def test_nets_without_weights_ask_for_their_input(corpus, name):
    with pytest.raises(ShapeError, match="--input-shape data="):
        read(Source(corpus / name))
    graph = read(Source(corpus / name, input_shapes={"data": (1, 784)}))
    assert not graph.loaded
    assert graph.parameters["fc1_weight"].shape == (128, 784)
    assert [str(value.shape) for value in graph.outputs] == ["[N,10]"]


def test_oldest_nets_get_their_statistics_and_multipliers(corpus):
    """The changes that MXNet 1.9.1 makes to this file when it loads it."""
    source = Source(
        corpus / "mxnet/v0.9.5/tests__python__unittest__save_000800.json", input_shapes={"data": (1, 784)}
    )
    parameters = read(source).parameters
    assert parameters["fc1_weight"].lr_mult == 1.2
    assert parameters["fc1_weight"].decay_mult == 0.3
    assert parameters["fc2_bias"].lr_mult == 0.01
    assert parameters["batchnorm0_moving_mean"].role == "mean"
    assert parameters["batchnorm0_moving_var"].shape == (10,)
    assert not parameters["batchnorm0_gamma"].trainable
