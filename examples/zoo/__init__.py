"""Classic nets of image classification, as their authors first published them.

``zoo.resnet(50)`` is a Symbol like any other: it can be drawn, fitted, saved for MXNet and, as a Graph,
written in every format. ``NETS`` names some of them, with the image that each takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from examples.zoo.branched import densenet, googlenet, inception_bn, inception_v3
from examples.zoo.plain import alexnet, caffenet, lenet, mobilenet, mobilenet_v2, nin, resnet, squeezenet, vgg
from netweave.formats.mxnet.symbol import Symbol

__all__ = [
    "NETS",
    "ZooNet",
    "alexnet",
    "caffenet",
    "densenet",
    "googlenet",
    "inception_bn",
    "inception_v3",
    "lenet",
    "mobilenet",
    "mobilenet_v2",
    "nin",
    "resnet",
    "squeezenet",
    "vgg",
]


@dataclass(frozen=True, slots=True)
class ZooNet:
    """A net of the zoo.

    Attributes:
        title: Its name.
        build: Builds it.
        image: Channels, height and width of an image.
    """

    title: str
    build: Callable[[], Symbol]
    image: tuple[int, int, int] = (3, 224, 224)


NETS = {
    "lenet": ZooNet("LeNet", lenet, (1, 28, 28)),
    "alexnet": ZooNet("AlexNet", alexnet, (3, 227, 227)),
    "caffenet": ZooNet("CaffeNet", caffenet, (3, 227, 227)),
    "nin": ZooNet("Network in Network", nin),
    "vgg16": ZooNet("VGG-16", vgg),
    "googlenet": ZooNet("GoogLeNet", googlenet),
    "inception-bn": ZooNet("Inception-BN", inception_bn),
    "inception-v3": ZooNet("Inception-v3", inception_v3, (3, 299, 299)),
    "resnet18": ZooNet("ResNet-18", partial(resnet, 18)),
    "resnet50": ZooNet("ResNet-50", partial(resnet, 50)),
    "resnet50-v2": ZooNet("ResNet-50 v2", partial(resnet, 50, version=2)),
    "squeezenet": ZooNet("SqueezeNet 1.0", squeezenet),
    "densenet121": ZooNet("DenseNet-121", densenet),
    "mobilenet": ZooNet("MobileNet v1", mobilenet),
    "mobilenet-v2": ZooNet("MobileNet v2", mobilenet_v2),
}
"""The nets by name; to add one, add its builder and a row."""
