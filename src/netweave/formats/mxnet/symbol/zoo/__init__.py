"""Classic nets of image classification, as their authors first published them.

``netweave.formats.mxnet.symbol.zoo.plain(50)`` is a Symbol like any other: it can be drawn, fitted, saved
for MXNet and, as a Graph, written in every format. What each costs and what was reached with it is in
``netweave zoo``.
"""

from netweave.formats.mxnet.symbol.zoo.branched import densenet, googlenet, inception_bn, inception_v3
from netweave.formats.mxnet.symbol.zoo.plain import (
    alexnet,
    caffenet,
    lenet,
    mobilenet,
    mobilenet_v2,
    nin,
    resnet,
    squeezenet,
    vgg,
)

__all__ = [
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
