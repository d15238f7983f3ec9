"""ResNet-50 of Caffe and of MXNet's model zoo, with the same weights.

Each runs as its own framework runs it; compared, they are the same net in every form that computes the same,
and another one with the zoo's own pooling. The golden file is written by ``tests/oracles/resnet50_run.py``.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

import netweave
from tests.oracles import golden, recipe, resnet50
from tests.oracles.resnet50_forms import FORMS

pytestmark = pytest.mark.slow

RECORD = json.loads(resnet50.GOLDEN.read_text())
CAFFE = "caffe/branch-intel/models__default_resnet_50__train_val.prototxt"
IMAGE = tuple(RECORD["inputs"]["data"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The nets' files, half a gigabyte, for the time of this module."""
    folder = tmp_path_factory.mktemp("resnet50")
    resnet50.write(folder)
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.fixture(scope="module")
def caffe(corpus, folder):
    """Caffe's net with the weights of the zoo's."""
    return netweave.load(corpus / CAFFE, folder / "caffe.caffemodel", input_shapes={"data": IMAGE})


@pytest.mark.parametrize("name", ["mxnet", "zoo", *FORMS])
def test_the_zoos_net_computes_what_mxnet_computes(folder, name):
    [found] = netweave.run(
        folder / f"{name}-symbol.json", {"data": recipe.image("data", IMAGE, 1.0)}
    ).values()
    assert golden.difference(found, RECORD["zoo" if name == "zoo" else "mxnet"]) < golden.TOLERANCE


def test_caffes_net_computes_what_opencv_computes(caffe):
    inputs = {"data": recipe.image("data", IMAGE, 1.0), "label": np.zeros(1, np.float32)}
    found = netweave.run(caffe, inputs, taps=["fc1000"])
    assert golden.difference(found["fc1000"], RECORD["caffe"]) < golden.TOLERANCE


@pytest.mark.parametrize("name", ["mxnet", *FORMS])
def test_the_two_are_found_to_be_the_same_net(caffe, folder, name):
    comparison = netweave.compare(caffe, folder / f"{name}-symbol.json")
    assert comparison.exit_status == 0
    assert comparison.findings == ()
    assert comparison.error < 1e-5


def test_the_zoos_own_pooling_is_found(caffe, folder):
    comparison = netweave.compare(caffe, folder / "zoo-symbol.json")
    assert comparison.exit_status == 1
    [finding] = comparison.findings
    assert (finding.layer_a, finding.layer_b) == ("pool1", f"{resnet50.NET}_pool0_fwd")
    assert finding.place_a.endswith(f"{CAFFE}:94")
    assert "padding" in finding.cause
    assert "pad=(0, 0)" in finding.fix
    assert "pooling_convention=full" in finding.fix
    assert finding.error > 0.01
    assert finding.error_fixed < 1e-5
