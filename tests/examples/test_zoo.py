"""The classic nets cost what others publish of them.

torchvision's figures are those of its documentation (``num_params`` and ``_ops`` of its weights), for nets
that are the same there. Caffe's parameters were counted by ``tests/oracles/corpus_table.py``, MXNet's by
MXNet 1.9.1.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.zoo import NETS
from netweave.api.reading import to_inference
from netweave.graph.costs import total_cost

CORPUS = json.loads((Path(__file__).parents[1] / "golden" / "corpus_nets.json").read_text())

PARAMETERS = {
    "vgg16": 138_357_544,  # torchvision
    "inception-v3": 27_161_264 - 3_326_696,  # torchvision, without the second classifier
    "resnet18": 11_689_512,  # torchvision
    "resnet50": 25_557_032,  # torchvision
    "resnet50-v2": 25_568_360 - 19_008,  # Keras, whose convolutions that no BatchNorm follows have biases
    "densenet121": 7_978_856,  # torchvision
    "squeezenet": 1_248_424,  # torchvision
    "mobilenet": 4_231_976,  # Keras, trainable
    "mobilenet-v2": 3_504_872,  # torchvision
    "inception-bn": 11_295_240,  # MXNet, of its example
}

CAFFE = {
    "lenet": "examples__mnist__lenet",
    "alexnet": "models__bvlc_alexnet__deploy",
    "caffenet": "models__bvlc_reference_caffenet__deploy",
    "googlenet": "models__bvlc_googlenet__deploy",
}

BILLIONS = {
    "alexnet": 0.724,  # Sze et al. 2017, Efficient processing of deep neural networks, table II
    "vgg16": 15.47,  # torchvision
    "inception-v3": 5.713,  # torchvision
    "resnet18": 1.814,  # torchvision
    "resnet50-v2": 4.089,  # torchvision's ResNet-50: strides and sizes of version 2 are the same
    "densenet121": 2.834,  # torchvision
    "squeezenet": 0.819,  # torchvision
    "mobilenet": 0.569,  # Howard et al. 2017, table 8
    "mobilenet-v2": 0.301,  # torchvision
}


@pytest.fixture(scope="module")
def graphs():
    return {name: to_inference(net.build().graph(data=(1, *net.image))) for name, net in NETS.items()}


@pytest.fixture(scope="module")
def costs(graphs):
    return {name: total_cost(graph) for name, graph in graphs.items()}


def parameters(graph):
    return sum(parameter.size for parameter in graph.parameters.values() if parameter.trainable)


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_published_ones(graphs, name):
    assert parameters(graphs[name]) == PARAMETERS[name]


@pytest.mark.parametrize("name", CAFFE)
def test_parameters_are_those_of_caffe_s_own_files(graphs, name):
    counts = {
        row["parameters"]
        for row in CORPUS
        if row["file"].startswith("caffe/rc3/") and CAFFE[name] in row["file"]
    }
    assert counts == {parameters(graphs[name])}


@pytest.mark.parametrize("name", BILLIONS)
def test_multiply_adds_are_the_published_ones(costs, name):
    assert costs[name].multiply_adds / 1e9 == pytest.approx(BILLIONS[name], rel=1e-3)


def test_activations_of_a_chain_are_the_sum_of_its_values(costs):
    """LeNet: two convolutions, two poolings, what is flat, two dense layers, a rectifier, a softmax."""
    values = 20 * 24**2 + 20 * 12**2 + 50 * 8**2 + 50 * 4**2 + 800 + 500 + 500 + 10 + 10
    assert costs["lenet"].activation_bytes == 4 * values
