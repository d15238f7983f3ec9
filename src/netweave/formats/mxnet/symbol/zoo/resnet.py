"""Residual nets of both versions."""

from __future__ import annotations

from netweave.formats.mxnet.symbol.naming import Prefix
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.zoo import blocks as b

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
