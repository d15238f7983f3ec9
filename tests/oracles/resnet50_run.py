"""Export the zoo's ResNet-50, run it by MXNet and Caffe's by OpenCV, and write what comes out.

    cd REPOSITORY; ORACLES/bin/python -m tests.oracles.resnet50_run CORPUS

Writes ``tests/golden/resnet50.json``. With the first pooling by Caffe's rule the two must agree, convolution
by convolution.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cv2
import mxnet as mx
import numpy as np
from mxnet.gluon.model_zoo import vision

from tests.oracles import caffe_net, golden, recipe, resnet50
from tests.oracles.caffemodel import caffemodel
from tests.oracles.resnet50_forms import FORMS

if TYPE_CHECKING:
    from tests.oracles.resnet50 import Arrays

CAFFE = "caffe/branch-intel/models__default_resnet_50__train_val.prototxt"
INPUT = (1, 3, 224, 224)
VALUES = 64


def main(corpus: Path) -> None:
    """Write the golden file."""
    symbol, stored = exported()
    zoo = resnet50.zoo_arrays(stored)
    names = {caffe: zoo_norm for caffe, zoo_norm, _ in resnet50.convolutions()}
    by_caffe = run_caffe(corpus / CAFFE, zoo, [f"scale{resnet50.tail(name)}" for name in names])
    by_mxnet = run_mxnet(resnet50.with_caffe_pooling(symbol), zoo, list(names.values()))
    for mine, theirs in zip(by_caffe, by_mxnet, strict=True):
        check(mine, theirs)
    for form in FORMS.values():
        check(run_mxnet(*form(resnet50.with_caffe_pooling(symbol), zoo), [])[-1], by_mxnet[-1])
    record = {
        "symbol": symbol,
        "stored": stored,
        "inputs": {"data": INPUT},
        "caffe": golden.describe(by_caffe[-1], VALUES),
        "mxnet": golden.describe(by_mxnet[-1], VALUES),
        "zoo": golden.describe(run_mxnet(symbol, zoo, [])[-1], VALUES),
    }
    golden.write_json(resnet50.GOLDEN, record)


def check(mine: np.ndarray, theirs: np.ndarray) -> None:
    """Raise ValueError where two tensors differ."""
    gap = np.abs(mine - theirs).max() / np.sqrt(np.mean(mine**2))
    if gap > golden.TOLERANCE:
        raise ValueError(f"the nets differ by {gap}")


def exported() -> tuple[dict[str, Any], dict[str, list[int]]]:
    """Return the zoo's symbol and the sizes of its arrays, as ``export`` writes them."""
    net = vision.resnet50_v1(prefix=f"{resnet50.NET}_")
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros(INPUT))
    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/zoo")
        symbol = json.loads(Path(f"{folder}/zoo-symbol.json").read_text())
        arrays = mx.nd.load(f"{folder}/zoo-0000.params")
    return symbol, {key: list(array.shape) for key, array in arrays.items()}


def run_mxnet(symbol: dict[str, Any], zoo: Arrays, norms: list[str]) -> list[np.ndarray]:
    """Return the outputs of normalisations by name, then the net's."""
    os.environ["MXNET_SUBGRAPH_BACKEND"] = "NONE"  # what oneDNN fuses has no inner outputs
    net = mx.sym.load_json(json.dumps(symbol))
    inner = net.get_internals()
    group = mx.sym.Group([*(inner[f"{name}_fwd_output"] for name in norms), net])
    arrays = {key: mx.nd.array(array) for key, array in zoo.items()}
    args = {key[4:]: array for key, array in arrays.items() if key.startswith("arg:")}
    aux = {key[4:]: array for key, array in arrays.items() if key.startswith("aux:")}
    data = mx.nd.array(recipe.image("data", INPUT, 1.0))
    executor = group.bind(mx.cpu(), {**args, "data": data}, aux_states=aux)
    return [result.asnumpy() for result in executor.forward(is_train=False)]


def run_caffe(path: Path, zoo: Arrays, scales: list[str]) -> list[np.ndarray]:
    """Return the outputs of Scale layers by name, then the net's."""
    body = caffe_net.read(path.read_text(), phase="TEST")
    model = caffemodel(list(resnet50.caffe_layers(zoo)), generation=2)
    net = cv2.dnn.readNetFromCaffe(body.text({"data": INPUT}).encode(), model)
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    net.setInput(recipe.image("data", INPUT, 1.0), "data")
    return list(net.forward([*scales, "fc1000"]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
