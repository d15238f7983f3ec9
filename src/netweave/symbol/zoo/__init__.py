"""Classic nets of image classification, as their authors first published them.

``netweave.symbol.zoo.resnet(50)`` is a Symbol like any other: it can be drawn, fitted, saved for MXNet and,
as a Graph, written in every format. What each costs and what was reached with it is in ``netweave zoo``.
"""

from netweave.symbol.zoo.densenet import densenet
from netweave.symbol.zoo.inception import googlenet, inception_bn, inception_v3
from netweave.symbol.zoo.mobile import mobilenet, mobilenet_v2, squeezenet
from netweave.symbol.zoo.plain import alexnet, caffenet, lenet, nin, vgg
from netweave.symbol.zoo.resnet import resnet

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
