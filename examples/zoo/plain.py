"""Plain and residual nets of MXNet's zoo."""

from __future__ import annotations

from examples.zoo import blocks as b
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.vertex import Prefix


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


def squeezenet(num_classes: int = 1000) -> Symbol:
    """SqueezeNet 1.0 (Iandola et al. 2016)."""
    x = b.max_pool(b.rectified(variable("data"), "conv1", 96, 7, stride=2), "pool1", up=True)
    for number, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        with Prefix(f"fire{number}_"):
            y = b.rectified(x, "squeeze1x1", squeezed, 1)
            ways = (
                b.rectified(y, "expand1x1", 4 * squeezed, 1),
                b.rectified(y, "expand3x3", 4 * squeezed, 3, pad=1),
            )
            x = b.concat(*ways, name="output")
        x = b.max_pool(x, f"pool{number}", up=True) if number in {4, 8} else x
    x = b.rectified(b.dropout(x, "drop9"), "conv10", num_classes, 1)
    return b.classes(b.global_average(x, "pool10"))


MOBILENET = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Width and stride of each pair of a depthwise and a pointwise convolution."""


def mobilenet(num_classes: int = 1000) -> Symbol:
    """MobileNet of the first version (Howard et al. 2017), as wide as it comes."""
    x = b.normalised(variable("data"), "conv1", 32, 3, stride=2, pad=1)
    channels = 32
    for number, (width, stride) in enumerate(MOBILENET, start=1):
        x = b.normalised(x, f"conv{number}_dw", channels, 3, stride=stride, pad=1, groups=channels)
        x = b.normalised(x, f"conv{number}_pw", width, 1)
        channels = width
    return b.classes(b.dense(b.global_average(x), "fc", num_classes, rectify=False))


MOBILENET_V2 = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Expansion, width, count and first stride of each row of blocks (the paper's table 2)."""


def mobilenet_v2(num_classes: int = 1000) -> Symbol:
    """MobileNet of the second version (Sandler et al. 2018), as wide as it comes."""
    x = b.normalised(variable("data"), "conv1", 32, 3, stride=2, pad=1, limit=6.0)
    channels = 32
    for row, (expansion, width, count, first) in enumerate(MOBILENET_V2, start=1):
        for number in range(1, count + 1):
            with Prefix(f"row{row}_block{number}_"):
                x = _inverted(x, channels, width, expansion, first if number == 1 else 1)
            channels = width
    x = b.normalised(x, "conv_last", 1280, 1, limit=6.0)
    x = b.dropout(b.global_average(x), "drop", 0.2)
    return b.classes(b.dense(x, "fc", num_classes, rectify=False))


def _inverted(x: Symbol, channels: int, width: int, expansion: int, stride: int) -> Symbol:
    inner = channels * expansion
    y = x if expansion == 1 else b.normalised(x, "expand", inner, 1, limit=6.0)
    y = b.normalised(y, "depthwise", inner, 3, stride=stride, pad=1, groups=inner, limit=6.0)
    y = b.normalised(y, "project", width, 1, rectify=False)
    return b.add(x, y, name="sum") if stride == 1 and channels == width else y


DEPTHS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""Units in each stage; from 50 layers on a unit is a bottleneck of three convolutions."""


def resnet(depth: int = 50, num_classes: int = 1000, *, version: int = 1) -> Symbol:
    """ResNet with 18, 34, 50, 101 or 152 layers.

    Version 1 is that of He et al. 2015, which halves the image in the first convolution of a bottleneck;
    version 2 that of He et al. 2016 ("Identity mappings"), which normalises before each convolution.
    """
    bottleneck = depth >= 50
    widths = [64 * 2**stage * (4 if bottleneck else 1) for stage in range(4)]
    if version == 1:
        x = b.normalised(variable("data"), "conv1", 64, 7, stride=2, pad=3)
    else:
        x = b.convolution(variable("data"), "conv1", 64, 7, stride=2, pad=3, bias=False)
    x = b.max_pool(x, "pool1", 3, 2, 1)
    channels = 64
    for stage, (count, width) in enumerate(zip(DEPTHS[depth], widths, strict=True), start=2):
        for number in range(1, count + 1):
            stride = 2 if stage > 2 and number == 1 else 1
            unit = _unit if version == 1 else _unit_v2
            with Prefix(f"stage{stage}_unit{number}_"):
                x = unit(x, channels, width, stride, bottleneck=bottleneck)
            channels = width
    if version != 1:
        x = b.relu(b.normalise(x, "last_bn"), "last_relu")
    return b.classes(b.dense(b.global_average(x), "fc", num_classes, rectify=False))


def _unit(x: Symbol, channels: int, width: int, stride: int, *, bottleneck: bool) -> Symbol:
    if bottleneck:
        y = b.normalised(x, "conv1", width // 4, 1, stride=stride)
        y = b.normalised(y, "conv2", width // 4, 3, pad=1)
        y = b.normalised(y, "conv3", width, 1, rectify=False)
    else:
        y = b.normalised(x, "conv1", width, 3, stride=stride, pad=1)
        y = b.normalised(y, "conv2", width, 3, pad=1, rectify=False)
    if stride != 1 or channels != width:
        x = b.normalised(x, "shortcut", width, 1, stride=stride, rectify=False)
    return b.relu(b.add(x, y, name="sum"), "relu")


def _unit_v2(x: Symbol, channels: int, width: int, stride: int, *, bottleneck: bool) -> Symbol:
    y = b.relu(b.normalise(x, "bn1"), "relu1")
    if stride != 1 or channels != width:
        x = b.convolution(y, "shortcut", width, 1, stride=stride, bias=False)
    if bottleneck:
        y = b.normalised(y, "conv1", width // 4, 1)
        y = b.normalised(y, "conv2", width // 4, 3, stride=stride, pad=1)
        y = b.convolution(y, "conv3", width, 1, bias=False)
    else:
        y = b.normalised(y, "conv1", width, 3, stride=stride, pad=1)
        y = b.convolution(y, "conv2", width, 3, pad=1, bias=False)
    return b.add(x, y, name="sum")
