"""Nets of Caffe and of Darknet, by other people's files, with drawn weights, run by OpenCV 4.8.1.

    ORACLES/bin/python -m tests.oracles.matrix.with_opencv caffe FOLDER NET --sources SOURCES --corpus CORPUS
    ORACLES/bin/python -m tests.oracles.matrix.with_opencv darknet FOLDER NET --sources SOURCES

Neither Caffe nor Darknet can be installed any more; OpenCV's importers stand in for them. The files are as
their authors wrote them: Caffe's of the corpus where it has the net, others from the repository that the
table names. OpenCV sees the net cut to its test phase (``caffe_net``). It refuses Darknet's ResNets, whose
shortcuts lead from one size to another, and its VGG-16, which crops.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from tests.oracles import caffe_net, caffemodel, darknet_net, recipe
from tests.oracles.matrix.making import Made, Sources, draw_inputs, main

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOEAVER = ("soeaver/caffe-model", "49dc8e0")
DARKNET = ("pjreddie/darknet", "f6afaabc")


def corpus(folder: Path, sources: Sources, path: str, **settings: Any) -> Made:
    """A net of the corpus."""
    return caffe(folder, (sources.corpus / path).read_text(), path, **settings)


def repository(folder: Path, sources: Sources, origin: tuple[str, str], path: str, **settings: Any) -> Made:
    """A net of somebody's repository."""
    return caffe(folder, sources.text(*origin, path), f"{origin[0]}, {path}", **settings)


def caffe(
    folder: Path,
    text: str,
    source: str,
    *,
    kind: str = "normal",
    shape: Sequence[int] = (),
    last: float = 0.1,
) -> Made:
    """Draw a net's arrays and run it in its test phase.

    Args:
        folder: Gets the file as it is, and a caffemodel.
        text: The file.
        source: Where it comes from.
        kind: How the input is drawn.
        shape: Sizes of the input, where its file does not say.
        last: Factor of the last weights, so that a softmax behind them tells more than one class.
    """
    body = caffe_net.read(text, phase="TEST")
    (name,) = body.inputs
    inputs = {name: tuple(shape) or (1, *body.declared[name][1:])}
    shapes, blobs = caffe_net.stored(body, inputs)
    layers = [
        (
            layer.name,
            layer.kind,
            [recipe.weight(blob.owner, blob.shape, blob.role) for blob in blobs[layer.name]],
        )
        for layer in body.inner
        if layer.name in blobs
    ]
    layers[-1][2][0] *= np.float32(last)
    model = caffemodel.caffemodel(layers, generation=max(1, body.generation))
    (folder / "net.prototxt").write_text(text)
    (folder / "net.caffemodel").write_bytes(model)
    net = cv2.dnn.readNetFromCaffe(body.text(inputs).encode(), model)
    drawn = {name: (inputs[name], kind)}
    names = [layer.name for layer in body.inner if layer.tops[0] in _ends(body)]
    outputs = dict(
        zip([_top(body, name) for name in names], run(net, draw_inputs(drawn), names), strict=True)
    )
    for layer in body.inner:
        if layer.kind == "detectionoutput":
            outputs[layer.tops[0]] = _by_class(outputs[layer.tops[0]])
    for top, array in outputs.items():
        if (
            array.shape != shapes[top] and 0 not in shapes[top]
        ):  # of how many boxes there are, no formula tells
            raise ValueError(f"{top}: OpenCV makes {array.shape}, the formulas {shapes[top]}")
    return Made(source, ("net.prototxt", "net.caffemodel"), drawn, outputs)


def _by_class(boxes: np.ndarray) -> np.ndarray:
    """Return rows of boxes in Caffe's order, by image, class and score; OpenCV sorts all classes as one."""
    rows = boxes.reshape(-1, 7)
    return rows[np.lexsort((-rows[:, 2], rows[:, 1], rows[:, 0]))].reshape(boxes.shape)


def _ends(body: Any) -> set[str]:
    """Return the blobs that no layer reads after the last that writes them."""
    ends: set[str] = set()
    for layer in body.inner:
        ends = (ends - set(layer.bottoms)) | set(layer.tops)
    return ends


def _top(body: Any, name: str) -> str:
    return next(layer.tops[0] for layer in body.inner if layer.name == name)


def run(net: Any, inputs: dict[str, np.ndarray], names: list[str]) -> list[np.ndarray]:
    """Run a net by OpenCV's plain kernels."""
    net.setPreferableBackend(cv2.dnn.DNN_BACKEND_OPENCV)
    net.enableFusion(False)
    net.enableWinograd(False)
    for name, array in inputs.items():
        net.setInput(array, name)
    return [np.array(array) for array in net.forward(names)]


def darknet(folder: Path, sources: Sources, path: str, size: int) -> Made:
    """A net of Darknet's own files, for images of another size."""
    text = re.sub(r"(?m)^(width|height)\s*=.*$", rf"\1={size}", sources.text(*DARKNET, f"cfg/{path}"))
    text = re.sub(r"(?m)^(batch|subdivisions)\s*=.*$", r"\1=1", text)
    cfg, weights = folder / "net.cfg", folder / "net.weights"
    cfg.write_text(text)
    layers = darknet_net.sections(text)
    walk = darknet_net.Walk(layers)
    walk.write(weights, gap=darknet_net.EPSILON_GAP)
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    walk.write(weights)
    ends = darknet_net.last_parts(net.getLayerNames())
    keep = [number for number in darknet_net.wanted(layers, every=False) if number in ends]
    inputs = {"data": ((1, *walk.sizes[0]), "normal")}
    found = run(net, {"": draw_inputs(inputs)["data"]}, [ends[number] for number in keep])
    names = [f"{layers[1 + number][0]}_{number}" for number in keep]
    return Made(path, ("net.cfg", "net.weights"), inputs, dict(zip(names, found, strict=True)))


CAFFE = {
    "lenet": partial(corpus, path="caffe/rc3/examples__mnist__lenet.prototxt", shape=(1, 1, 28, 28)),
    "alexnet": partial(corpus, path="caffe/rc3/models__bvlc_alexnet__deploy.prototxt", kind="pixels"),
    "caffenet": partial(
        corpus, path="caffe/rc3/models__bvlc_reference_caffenet__deploy.prototxt", kind="pixels"
    ),
    "vgg16": partial(
        corpus, path="caffe/branch-intel/models__default_vgg_16__train_val.prototxt", shape=(1, 3, 224, 224)
    ),
    "googlenet": partial(corpus, path="caffe/rc3/models__bvlc_googlenet__deploy.prototxt"),
    "inception-bn": partial(repository, origin=SOEAVER, path="cls/inception/deploy_inception-v2.prototxt"),
    "inception-v3": partial(repository, origin=SOEAVER, path="cls/inception/deploy_inception-v3.prototxt"),
    "resnet18": partial(
        repository, origin=SOEAVER, path="cls/resnet/deploy_resnet18-priv.prototxt", last=0.01
    ),
    "resnet50": partial(
        corpus,
        path="caffe/branch-intel/models__default_resnet_50__train_val.prototxt",
        shape=(1, 3, 224, 224),
        last=0.01,
    ),
    "densenet121": partial(
        repository, origin=("shicai/DenseNet-Caffe", "d47f7b7"), path="DenseNet_121.prototxt"
    ),
    "squeezenet": partial(
        repository, origin=("forresti/SqueezeNet", "51147dc"), path="SqueezeNet_v1.0/deploy.prototxt"
    ),
    "mobilenet": partial(
        repository, origin=("shicai/MobileNet-Caffe", "a0b0c46"), path="mobilenet_deploy.prototxt"
    ),
    "mobilenet-v2": partial(
        repository, origin=("shicai/MobileNet-Caffe", "a0b0c46"), path="mobilenet_v2_deploy.prototxt"
    ),
    "ssd300": partial(
        corpus,
        path="caffe/branch-intel/models__intel_optimized_models__ssd__VGGNet__VOC0712__SSD_300x300__deploy.prototxt",
    ),
    "fcn8s": partial(
        repository,
        origin=("shelhamer/fcn.berkeleyvision.org", "1305c73"),
        path="voc-fcn8s/deploy.prototxt",
        shape=(1, 3, 96, 128),
    ),
}

DARKNETS = {
    "alexnet": partial(darknet, path="alexnet.cfg", size=227),
    "yolov3": partial(darknet, path="yolov3.cfg", size=160),
}

if __name__ == "__main__":
    main(f"OpenCV {cv2.__version__}", CAFFE if sys.argv.pop(1) == "caffe" else DARKNETS)
