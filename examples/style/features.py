"""The nets whose layers say what a picture shows, and how it is drawn: VGG-19, or a small net learnt here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

import netweave.mxnet as mx
from examples import zoo
from netweave import symbol as sym
from netweave.errors import ReadError
from netweave.formats.caffe.weights import read_weights

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from netweave.formats.mxnet.symbol import Symbol

PATCH = 32
"""Height and width of the patches that the small net learns from."""

CHANNEL_MEANS = (123.68, 116.779, 103.939)
"""Means of ImageNet's red, green and blue, which the authors of VGG subtracted."""


@dataclass(frozen=True, slots=True)
class FeatureNet:
    """A trained net, and the values of it that are looked at.

    Attributes:
        values: The values, as one symbol: those of ``style``, then the content.
        arrays: Weights by the names of the symbol's arguments.
        style: Names of the values whose correlations are the style.
        content: Name of the value that is the content.
        means: What to subtract from red, green and blue, in 0 to 255.
        scale: What to multiply by after that.
        blue_first: Whether the net wants blue, green, red.
    """

    values: Symbol
    arrays: dict[str, np.ndarray]
    style: tuple[str, ...]
    content: str
    means: tuple[float, float, float]
    scale: float
    blue_first: bool

    def prepare(self, picture: torch.Tensor) -> torch.Tensor:
        """Return a picture, (1, 3, height, width) in 0 to 1, red first, as the net wants it."""
        means = torch.tensor(self.means, dtype=picture.dtype).reshape(1, 3, 1, 1)
        prepared = (picture * 255 - means) * self.scale
        return prepared.flip(1) if self.blue_first else prepared


def vgg19(weights: Path) -> FeatureNet:
    """Return VGG-19 with the weights of a caffemodel; what the example does not use may be missing from it.

    Args:
        weights: The authors' ``VGG_ILSVRC_19_layers.caffemodel``, or one with the same names of layers.

    Raises:
        ReadError: The file cannot be read, or lacks a layer.
    """
    style = tuple(f"conv{block}_1_relu_output" for block in range(1, 6))
    content = "conv4_2_relu_output"
    values = _values(zoo.vgg(19), (*style, content))
    stored = read_weights(weights)
    shapes = dict(zip(values.list_arguments(), values.infer_shape(data=(1, 3, 32, 32))[0], strict=True))
    del shapes["data"]
    arrays = {}
    for name, shape in shapes.items():
        layer, _, kind = name.rpartition("_")
        blob = (stored.layer(layer) or {}).get(("weight", "bias").index(kind))
        if blob is None or not blob.fits(shape):
            found = "none" if blob is None else "x".join(map(str, blob.shape))
            raise ReadError(
                f"layer {layer!r} of VGG-19 needs a {kind} of {'x'.join(map(str, shape))}, found {found}",
                place=str(weights),
            )
        arrays[name] = np.array(blob.load(), np.float32).reshape(shape)
    return FeatureNet(values, arrays, style, content, CHANNEL_MEANS, 1.0, blue_first=True)


def learn_small_net(pictures: Sequence[np.ndarray], *, epochs: int = 5) -> tuple[FeatureNet, float]:
    """Return a small net that tells which picture a patch is from and which way up it is, and its accuracy.

    What is up is learnt from edges, colours and textures: the features that a style consists of, without any
    labels or downloads (Gidaris et al. 2018, "predicting image rotations").

    Args:
        pictures: Pictures (height, width, 3) in 0 to 255, red first.
        epochs: Times over the patches.
    """
    images, labels = patches(pictures)
    mx.random.seed(5)
    module = mx.mod.Module(small_net(4 * len(pictures)))
    records = mx.io.NDArrayIter(images, labels, 32, shuffle=True)
    module.fit(
        records,
        num_epoch=epochs,
        optimizer="adam",
        optimizer_params={"learning_rate": 0.001},
        initializer=mx.init.Xavier(rnd_type="gaussian", factor_type="in", magnitude=2),
    )
    style = ("data", "relu1_1_output", "relu1_2_output", "relu2_1_output", "relu2_2_output", "relu3_1_output")
    values = _values(small_net(4), (*style, "relu2_2_output"))
    learnt = module.get_params()[0]
    arrays = {name: learnt[name].asnumpy() for name in values.list_arguments()[1:]}
    means = (127.5, 127.5, 127.5)
    net = FeatureNet(values, arrays, style, "relu2_2_output", means, 1 / 64, blue_first=False)
    return net, dict(module.score(records, "accuracy"))["accuracy"]


def small_net(num_classes: int) -> Symbol:
    """Return a net in the manner of VGG for patches, with average pooling as Gatys et al. advise."""
    x = sym.Variable("data")
    for block, widths in enumerate(((24, 24), (48, 48), (64,)), start=1):
        for number, width in enumerate(widths, start=1):
            name = f"{block}_{number}"
            x = sym.Convolution(x, num_filter=width, kernel=(3, 3), pad=(1, 1), name=f"conv{name}")
            x = sym.Activation(x, act_type="relu", name=f"relu{name}")
        x = sym.Pooling(x, kernel=(2, 2), stride=(2, 2), pool_type="avg", name=f"pool{block}")
    x = sym.FullyConnected(sym.Flatten(x), num_hidden=num_classes, name="classes")
    return sym.SoftmaxOutput(x, name="softmax")


def patches(pictures: Sequence[np.ndarray], *, stride: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Return patches of pictures, turned by 0, 90, 180 and 270 degrees, as the small net wants them.

    Args:
        pictures: Pictures (height, width, 3) in 0 to 255, red first.
        stride: Pixels from one patch to the next.

    Returns:
        Patches (n, 3, PATCH, PATCH), and their classes: four for each picture.
    """
    images, labels = [], []
    for number, picture in enumerate(pictures):
        height, width = picture.shape[:2]
        for y in range(0, height - PATCH + 1, stride):
            for x in range(0, width - PATCH + 1, stride):
                patch = picture[y : y + PATCH, x : x + PATCH]
                images += [np.rot90(patch, turns) for turns in range(4)]
                labels += [4 * number + turns for turns in range(4)]
    stacked = (np.stack(images).astype(np.float32) - 127.5) / 64
    return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)), np.array(labels, np.float32)


def _values(net: Symbol, names: Sequence[str]) -> Symbol:
    internals = net.get_internals()
    return sym.Group([internals[name] for name in names])
