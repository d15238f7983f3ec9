"""Caffe nets of the corpus with seeded weights, and other forms of them that compute the same."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.faults.arrays import Stored
from benchmarks.faults.model import Net
from tests.oracles import caffe_net, recipe
from tests.oracles.caffemodel import caffemodel

if TYPE_CHECKING:
    from tests.oracles.caffe_net import Body, Layer

NETS = {
    "lenet": ("head-1.0/examples__mnist__lenet.prototxt", (1, 28, 28)),
    "cifar10_quick": ("head-1.0/examples__cifar10__cifar10_quick.prototxt", (3, 32, 32)),
    "cifar10_full": ("head-1.0/examples__cifar10__cifar10_full.prototxt", (3, 32, 32)),
    "cifar10_bn": ("head-1.0/examples__cifar10__cifar10_full_sigmoid_train_test_bn.prototxt", (3, 32, 32)),
    "siamese": ("head-1.0/examples__siamese__mnist_siamese.prototxt", (1, 28, 28)),
    "mnist_autoencoder": ("head-1.0/examples__mnist__mnist_autoencoder.prototxt", (1, 28, 28)),
    "googlenet": ("head-1.0/models__bvlc_googlenet__deploy.prototxt", (3, 224, 224)),
    "cifar10_sigmoid": ("head-1.0/examples__cifar10__cifar10_full_sigmoid_train_test.prototxt", (3, 32, 32)),
    "nonlinear": ("head-1.0/examples__hdf5_classification__nonlinear_train_val.prototxt", (4,)),
    "resnet_50": ("branch-intel/models__default_resnet_50__train_val.prototxt", (3, 224, 224)),
    "vgg_16": ("branch-intel/models__default_vgg_16__train_val.prototxt", (3, 64, 64)),
}
"""File in the corpus and size of the input."""

NARROW = {"resnet_50": 8, "vgg_16": 8}
"""Nets whose layers get this part of their outputs, so that many faults can be tried."""

ROLES = {
    "filter": "filter", "matrix": "matrix", "bias": "bias", "mean": "mean", "variance": "variance",
    "slope": "slope", "scale": "gamma",
}  # fmt: skip

FACTOR = np.float32(997.0)
"""What statistics are stored times."""


@dataclass(frozen=True)
class CaffeNet:
    """A net of Caffe in parts: its text and its arrays by key (``conv1/0``)."""

    body: Body
    shape: tuple[int, ...]
    arrays: dict[str, np.ndarray]

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Input sizes with a batch of 1."""
        return {self.body.inputs[0]: (1, *self.shape)}

    def with_body(self, body: Body) -> CaffeNet:
        """Return the net with another text."""
        return replace(self, body=body)

    def with_arrays(self, arrays: dict[str, np.ndarray]) -> CaffeNet:
        """Return the net with some arrays replaced."""
        return replace(self, arrays={**self.arrays, **arrays})

    def kind(self, layer: str) -> str:
        """Return the kind of a layer."""
        return next(found.kind for found in self.body.inner if found.name == layer)

    def stored(self) -> list[Stored]:
        """Return what is stored, by role."""
        shapes, blobs = caffe_net.stored(self.body, self.inputs)
        bottoms = {layer.name: layer.bottoms for layer in self.body.inner}
        found = []
        for layer, entries in blobs.items():
            shape = shapes[bottoms[layer][0]][1:]
            for entry in entries:
                if entry.key != entry.owner:
                    continue
                role = ROLES[entry.role]
                if self.kind(layer) == "batchnorm" and role == "gamma":
                    role = "factor"
                image = shape if role == "matrix" and len(shape) == 3 else None
                found.append(Stored(entry.key, layer, role, image))
        return found

    def net(self) -> Net:
        """Return the net's files."""
        by_layer: dict[str, list[np.ndarray]] = {}
        for key, array in self.arrays.items():
            by_layer.setdefault(key.rpartition("/")[0], []).append(array)
        known = {layer.name for layer in self.body.inner}
        layers = [(name, self.kind(name), values) for name, values in by_layer.items() if name in known]
        files = {
            "net.prototxt": self.body.text(self.inputs).encode(),
            "net.caffemodel": caffemodel(layers, generation=max(1, self.body.generation)),
        }
        return Net("caffe", files, {name: shape[1:] for name, shape in self.inputs.items()})


def read(corpus: Path, name: str) -> CaffeNet:
    """Read a net and draw its arrays by the oracles' recipe."""
    path, shape = NETS[name]
    body = caffe_net.read((corpus / "caffe" / path).read_text(), phase="TEST")
    _narrow(body, NARROW.get(name, 1))
    net = CaffeNet(body, shape, {})
    _, blobs = caffe_net.stored(body, net.inputs)
    for layer, entries in blobs.items():
        for entry in entries:
            array = recipe.weight(entry.owner, entry.shape, entry.role)
            if net.kind(layer) == "batchnorm":
                array = array * FACTOR if entry.role != "scale" else np.array([FACTOR])
            net.arrays[entry.key] = array.astype(np.float32)
    return net


def _narrow(body: Body, by: int) -> None:
    """Divide the outputs of every layer."""
    for layer in body.inner:
        outputs = layer.number("num_output")
        if outputs is not None and by > 1:
            layer.settings["num_output"] = [str(max(1, outputs // by))]
            for key, value in layer.message:
                if key in {"convolution_param", "inner_product_param"} and isinstance(value, list):
                    pairs = [(k, v) for k, v in value if k != "num_output"]
                    value[:] = [*pairs, ("num_output", layer.settings["num_output"][0])]


def renamed(net: CaffeNet) -> tuple[CaffeNet, dict[str, str]]:
    """Return the net with names that say nothing, for layers and blobs, and its layers' new names."""
    body = copy.deepcopy(net.body)
    blobs = {name: name for name in net.body.inputs[:1]}
    names = {}
    for number, layer in enumerate(body.inner):
        names[layer.name] = f"l{number * 7919 % 9973}"
        for top in layer.tops:
            blobs.setdefault(top, f"b{number * 7919 % 9973}_{len(blobs)}")
        layer.name = names[layer.name]
        rewrite(layer, blobs)
    arrays = {}
    for key, array in net.arrays.items():
        layer, _, index = key.rpartition("/")
        arrays[f"{names[layer]}/{index}"] = array
    return CaffeNet(body, net.shape, arrays), names


def unrolled(net: CaffeNet) -> tuple[CaffeNet, dict[str, str]]:
    """Return the net with a blob of its own for what layers compute in place."""
    body = copy.deepcopy(net.body)
    current = {name: name for name in net.body.inputs[:1]}
    for layer in body.inner:
        layer.bottoms = [current.get(name, name) for name in layer.bottoms]
        in_place = layer.tops == layer.bottoms or (layer.tops and layer.tops[0] in current)
        for top in list(layer.tops):
            current[top] = f"{layer.name}_out" if in_place else top
        layer.tops = [current[top] for top in layer.tops]
        rewrite(layer, {})
    return CaffeNet(body, net.shape, net.arrays), {}


def rewrite(layer: Layer, blobs: dict[str, str]) -> None:
    """Write a layer's name, bottoms and tops into its message, the blobs renamed."""
    layer.bottoms = [blobs.get(name, name) for name in layer.bottoms]
    layer.tops = [blobs.get(name, name) for name in layer.tops]
    rest = [(key, value) for key, value in layer.message if key not in {"name", "bottom", "top"}]
    names = [("name", f'"{layer.name}"')]
    names += [("bottom", f'"{name}"') for name in layer.bottoms]
    names += [("top", f'"{name}"') for name in layer.tops]
    layer.message[:] = [*names, *rest]


FORMS: dict[str, Callable[[CaffeNet], tuple[CaffeNet, dict[str, str]]]] = {
    "renamed": renamed,
    "unrolled": unrolled,
}
