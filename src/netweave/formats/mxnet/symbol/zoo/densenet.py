"""Nets whose layers read all layers before them."""

from __future__ import annotations

from netweave.formats.mxnet.symbol.naming import Prefix
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.zoo import blocks as b

DEPTHS = {
    121: (6, 12, 24, 16),
    169: (6, 12, 32, 32),
    201: (6, 12, 48, 32),
}
"""Layers in each block."""

GROWTH = 32
"""Channels that each layer adds."""


def densenet(depth: int = 121, num_classes: int = 1000) -> Symbol:
    """DenseNet (Huang et al. 2016) with 121, 169 or 201 layers."""
    x = b.max_pool(b.normalised(variable("data"), "conv1", 64, 7, stride=2, pad=3), "pool1", 3, 2, 1)
    channels = 64
    for block, count in enumerate(DEPTHS[depth], start=1):
        for number in range(1, count + 1):
            with Prefix(f"block{block}_layer{number}_"):
                y = b.normalised(_before(x, "1"), "conv1", 4 * GROWTH, 1)
                y = b.convolution(y, "conv2", GROWTH, 3, pad=1, bias=False)
                x = b.concat(x, y, name="output")
        channels += count * GROWTH
        if block < len(DEPTHS[depth]):
            channels //= 2
            with Prefix(f"transition{block}_"):
                x = b.convolution(_before(x, "1"), "conv", channels, 1, bias=False)
                x = b.average_pool(x, "pool", 2, 2, 0)
    x = b.global_average(_before(x, "last"))
    return b.classes(b.dense(x, "fc", num_classes, rectify=False))


def _before(x: Symbol, name: str) -> Symbol:
    return b.relu(b.normalise(x, f"bn{name}"), f"relu{name}")
