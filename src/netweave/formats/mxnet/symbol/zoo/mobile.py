"""Small nets: SqueezeNet, and MobileNet of both versions."""

from __future__ import annotations

from netweave.formats.mxnet.symbol.naming import Prefix
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.zoo import blocks as b


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
