"""ResNet-50 of Caffe and of MXNet's model zoo, with the same weights: each as its own framework runs it.

The golden file is written by ``tests/oracles/resnet50_run.py``.
"""

from __future__ import annotations

import json

import pytest

import netweave
from tests.oracles import golden, recipe, resnet50

RECORD = json.loads(resnet50.GOLDEN.read_text())
CAFFE = "caffe/branch-intel/models__default_resnet_50__train_val.prototxt"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The nets' files, for the time of this module."""
    folder = tmp_path_factory.mktemp("resnet50")
    resnet50.write(folder)
    yield folder
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mxnet", "zoo", "folded", "renamed", "shuffled"])
def test_the_zoos_net_computes_what_mxnet_computes(folder, name):
    [found] = netweave.run(folder / f"{name}-symbol.json", image()).values()
    assert golden.difference(found, RECORD["zoo" if name == "zoo" else "mxnet"]) < golden.TOLERANCE


@pytest.mark.slow
def test_caffes_net_computes_what_opencv_computes(corpus, folder):
    graph = netweave.load(
        corpus / CAFFE, folder / "caffe.caffemodel", input_shapes={"data": (1, 3, 224, 224)}
    )
    inputs = image()
    inputs["label"] = inputs["data"][:, 0, 0, 0] * 0
    found = netweave.run(graph, inputs, taps=["fc1000"])
    assert golden.difference(found["fc1000"], RECORD["caffe"]) < golden.TOLERANCE


def image():
    return {name: recipe.image(name, tuple(shape), 1.0) for name, shape in RECORD["inputs"].items()}
