"""Chains of layers: LeNet, AlexNet, CaffeNet, Network in Network, VGG."""

from __future__ import annotations

from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.zoo import blocks as b


def lenet(num_classes: int = 10) -> Symbol:
    """LeNet in the form of Caffe's example on MNIST, for images of 28 times 28."""
    x = b.max_pool(b.convolution(variable("data"), "conv1", 20, 5), "pool1", 2)
    x = b.max_pool(b.convolution(x, "conv2", 50, 5), "pool2", 2)
    x = b.dense(b.flatten(x), "ip1", 500)
    return b.classes(b.dense(x, "ip2", num_classes, rectify=False))


def alexnet(num_classes: int = 1000) -> Symbol:
    """AlexNet (Krizhevsky, Sutskever and Hinton 2012), for images of 227 times 227."""
    return _alexnet(num_classes, normalise_first=True)


def caffenet(num_classes: int = 1000) -> Symbol:
    """Caffe's reference net: AlexNet with the normalisation behind the pooling."""
    return _alexnet(num_classes, normalise_first=False)


def _alexnet(num_classes: int, *, normalise_first: bool) -> Symbol:
    x = variable("data")
    for number, (width, kernel, stride, pad, groups) in enumerate(
        ((96, 11, 4, 0, 1), (256, 5, 1, 2, 2)), start=1
    ):
        x = b.rectified(x, f"conv{number}", width, kernel, stride=stride, pad=pad, groups=groups)
        x = b.lrn(x, f"norm{number}") if normalise_first else x
        x = b.max_pool(x, f"pool{number}")
        x = x if normalise_first else b.lrn(x, f"norm{number}")
    for number, (width, groups) in enumerate(((384, 1), (384, 2), (256, 2)), start=3):
        x = b.rectified(x, f"conv{number}", width, 3, pad=1, groups=groups)
    x = b.flatten(b.max_pool(x, "pool5"))
    for number in (6, 7):
        x = b.dropout(b.dense(x, f"fc{number}", 4096), f"drop{number}")
    return b.classes(b.dense(x, "fc8", num_classes, rectify=False))


def nin(num_classes: int = 1000) -> Symbol:
    """Network in Network (Lin, Chen and Yan 2013), as its authors had it for ImageNet."""
    x = variable("data")
    for number, (width, kernel, stride, pad) in enumerate(
        ((96, 11, 4, 0), (256, 5, 1, 2), (384, 3, 1, 1), (1024, 3, 1, 1)), start=1
    ):
        is_last = number == 4
        x = b.dropout(x, "drop") if is_last else x
        x = b.rectified(x, f"conv{number}", width, kernel, stride=stride, pad=pad)
        x = b.rectified(x, f"cccp{2 * number - 1}", width, 1)
        x = b.rectified(x, f"cccp{2 * number}", num_classes if is_last else width, 1)
        x = x if is_last else b.max_pool(x, f"pool{number}")
    return b.classes(b.global_average(x, "pool4"))


VGG_DEPTHS = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
"""Convolutions in each block, by the number of layers with weights."""


def vgg(depth: int = 16, num_classes: int = 1000) -> Symbol:
    """VGG (Simonyan and Zisserman 2014) with 11, 13, 16 or 19 layers, for images of 224 times 224."""
    x = variable("data")
    for block, (count, width) in enumerate(
        zip(VGG_DEPTHS[depth], (64, 128, 256, 512, 512), strict=True), start=1
    ):
        for number in range(1, count + 1):
            x = b.rectified(x, f"conv{block}_{number}", width, 3, pad=1)
        x = b.max_pool(x, f"pool{block}", 2)
    x = b.flatten(x)
    for number in (6, 7):
        x = b.dropout(b.dense(x, f"fc{number}", 4096), f"drop{number}")
    return b.classes(b.dense(x, "fc8", num_classes, rectify=False))
