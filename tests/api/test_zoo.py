"""The classic nets cost what others publish of them.

torchvision's figures are those of its documentation (``num_params`` and ``_ops`` of its weights), for nets
that are the same there. Caffe's parameters were counted by ``tests/oracles/corpus_table.py``, MXNet's by
MXNet 1.9.1.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netweave import api, cli
from netweave.api.zoo import NETS
from netweave.errors import UsageError

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

DEPTHS = {
    "alexnet": 8, "vgg16": 16, "googlenet": 22, "inception-v3": 48, "resnet18": 18, "resnet50": 50,
    "densenet121": 121, "squeezenet": 18, "mobilenet": 28, "mobilenet-v2": 53, "nin": 12, "lenet": 4,
}  # fmt: skip


@pytest.fixture(scope="module")
def nets():
    return {net.name: net for net in api.zoo_costs()}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_published_ones(nets, name):
    assert nets[name].parameters == PARAMETERS[name]


@pytest.mark.parametrize("name", CAFFE)
def test_parameters_are_those_of_caffe_s_own_files(nets, name):
    counts = {
        row["parameters"]
        for row in CORPUS
        if row["file"].startswith("caffe/rc3/") and CAFFE[name] in row["file"]
    }
    assert counts == {nets[name].parameters}


@pytest.mark.parametrize("name", BILLIONS)
def test_multiply_adds_are_the_published_ones(nets, name):
    assert nets[name].multiply_adds / 1e9 == pytest.approx(BILLIONS[name], rel=1e-3)


@pytest.mark.parametrize("name", DEPTHS)
def test_depths_are_those_that_the_nets_are_named_for(nets, name):
    assert nets[name].depth == DEPTHS[name]


def test_activations_of_a_chain_are_the_sum_of_its_values(nets):
    """LeNet: two convolutions, two poolings, what is flat, two dense layers, a rectifier, a softmax."""
    values = 20 * 24**2 + 20 * 12**2 + 50 * 8**2 + 50 * 4**2 + 800 + 500 + 500 + 10 + 10
    assert nets["lenet"].activation_bytes == 4 * values


def test_every_net_says_where_its_accuracy_is_from():
    for name, net in NETS.items():
        assert net.source, name
        assert net.top1 is None or 50 < net.top1 < 90, name


def test_a_net_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(UsageError, match=r"no net 'resnet5' in the zoo; it has lenet, .*mobilenet-v2"):
        api.zoo_costs(["resnet5"])


def test_the_command_shows_some_nets_and_writes_json(capsys, tmp_path):
    with pytest.raises(SystemExit) as left:
        cli.main(["zoo", "lenet", "squeezenet", "--json", str(tmp_path / "zoo.json")])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "SqueezeNet 1.0" in shown
    assert "57.5 %" in shown
    found = json.loads((tmp_path / "zoo.json").read_text())["nets"]
    assert [(net["name"], net["parameters"]) for net in found] == [
        ("lenet", 431_080),
        ("squeezenet", 1_248_424),
    ]


def test_a_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    nets = api.zoo_costs(["squeezenet", "alexnet"])
    api.save_zoo_picture(nets, tmp_path / "zoo.svg")
    text = (tmp_path / "zoo.svg").read_text()
    assert text.count("<use") >= 2
    with pytest.raises(UsageError, match=r"zoo\.txt: pictures are drawn as .*\.png"):
        api.save_zoo_picture(nets, tmp_path / "zoo.txt")
    with pytest.raises(UsageError, match="none of these nets has a published accuracy"):
        api.save_zoo_picture(api.zoo_costs(["lenet"]), tmp_path / "zoo.svg")
