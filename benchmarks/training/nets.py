"""The nets that are trained, and their layers as plain data for frameworks that know no Caffe."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import netweave

SIZE = 224


@dataclass(frozen=True)
class Net:
    """A file of the corpus, and how many images a step takes."""

    file: str
    batch: int


NETS = {
    "AlexNet": Net("caffe/head-1.0/models__bvlc_alexnet__train_val.prototxt", 32),
    "GoogLeNet": Net("caffe/head-1.0/models__bvlc_googlenet__train_val.prototxt", 16),
    "VGG-16": Net("caffe/branch-intel/models__default_vgg_16__train_val.prototxt", 8),
    "ResNet-50": Net("caffe/branch-intel/models__default_resnet_50__train_val.prototxt", 8),
}


def layers(net: Net, corpus: Path) -> list[dict[str, Any]]:
    """Return the layers of the training phase, each with type, name, settings, inputs and outputs."""
    shapes = {"data": (net.batch, 3, SIZE, SIZE), "label": (net.batch,)}
    graph = netweave.load(corpus / net.file, input_shapes=shapes, phase="TRAIN")
    return [
        {
            "type": layer.type,
            "name": layer.name,
            "settings": {
                k: v for key, own in layer.settings.items() if key.endswith("_param") for k, v in _plain(own)
            }
            | {"loss_weight": (layer.settings.get("loss_weight") or [1.0])[0]},
            "inputs": list(layer.inputs),
            "outputs": list(layer.outputs),
        }
        for layer in graph.layers.values()
        if layer.type != "Data"
    ]


def _plain(settings: Any) -> list[tuple[str, Any]]:
    """Return settings with lists of one element taken apart, fillers left out."""
    return [
        (key, value[0] if isinstance(value, list) and len(value) == 1 else value)
        for key, value in settings.items()
        if not key.endswith("filler")
    ]
