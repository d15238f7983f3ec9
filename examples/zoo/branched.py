"""Nets of branches: GoogLeNet, Inception and DenseNet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from examples.zoo import blocks as b
from netweave.formats.mxnet.symbol.symbol import Symbol, variable
from netweave.formats.mxnet.symbol.vertex import Prefix

GOOGLENET = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""Widths: 1x1; 3x3 reduced and whole; 5x5 reduced and whole; behind the pooling (the paper's table 1)."""


def googlenet(num_classes: int = 1000) -> Symbol:
    """GoogLeNet (Szegedy et al. 2014) as it predicts, without the two classifiers beside it."""
    pool = partial(b.max_pool, up=True)
    x = pool(b.rectified(variable("data"), "conv1", 64, 7, stride=2, pad=3), "pool1")
    x = b.rectified(b.lrn(x, "norm1"), "conv2_reduce", 64, 1)
    x = pool(b.lrn(b.rectified(x, "conv2", 192, 3, pad=1), "norm2"), "pool2")
    for name, (one, three_in, three, five_in, five, behind) in GOOGLENET.items():
        with Prefix(f"inception_{name}_"):
            ways = (
                b.rectified(x, "1x1", one, 1),
                b.rectified(b.rectified(x, "3x3_reduce", three_in, 1), "3x3", three, 3, pad=1),
                b.rectified(b.rectified(x, "5x5_reduce", five_in, 1), "5x5", five, 5, pad=2),
                b.rectified(b.max_pool(x, "pool", 3, 1, 1), "pool_proj", behind, 1),
            )
            x = b.concat(*ways, name="output")
        x = pool(x, f"pool{name[0]}") if name in {"3b", "4e"} else x
    x = b.dropout(b.global_average(x, "pool5"), "drop", 0.4)
    return b.classes(b.dense(x, "classifier", num_classes, rectify=False))


INCEPTION_BN = {
    "3a": (64, 64, 64, 64, 96, "avg", 32),
    "3b": (64, 64, 96, 64, 96, "avg", 64),
    "3c": (0, 128, 160, 64, 96, "max", 0),
    "4a": (224, 64, 96, 96, 128, "avg", 128),
    "4b": (192, 96, 128, 96, 128, "avg", 128),
    "4c": (160, 128, 160, 128, 160, "avg", 128),
    "4d": (96, 128, 192, 160, 192, "avg", 128),
    "4e": (0, 128, 192, 192, 256, "max", 0),
    "5a": (352, 192, 320, 160, 224, "avg", 128),
    "5b": (352, 192, 320, 192, 224, "max", 128),
}
"""Widths: 1x1; 3x3 reduced and whole; twice 3x3 reduced and whole; pooling, and behind it. Those without a
1x1 halve the image."""


def inception_bn(num_classes: int = 1000) -> Symbol:
    """Inception with BatchNorm (Ioffe and Szegedy 2015), in the widths of MXNet's example."""
    conv = partial(b.normalised, bias=True, epsilon=1e-3)
    x = b.max_pool(conv(variable("data"), "conv1", 64, 7, stride=2, pad=3), "pool1", up=True)
    x = conv(conv(x, "conv2_reduce", 64, 1), "conv2", 192, 3, pad=1)
    x = b.max_pool(x, "pool2", up=True)
    for name, (one, three_in, three, double_in, double, kind, behind) in INCEPTION_BN.items():
        stride = 1 if one else 2
        with Prefix(f"inception_{name}_"):
            ways = [conv(x, "1x1", one, 1)] if one else []
            ways.append(conv(conv(x, "3x3_reduce", three_in, 1), "3x3", three, 3, stride=stride, pad=1))
            y = conv(conv(x, "double_reduce", double_in, 1), "double_1", double, 3, pad=1)
            ways.append(conv(y, "double_2", double, 3, stride=stride, pad=1))
            y = (b.average_pool if kind == "avg" else b.max_pool)(x, "pool", 3, stride, 1)
            ways.append(conv(y, "pool_proj", behind, 1) if behind else y)
            x = b.concat(*ways, name="output")
    return b.classes(b.dense(b.global_average(x), "fc1", num_classes, rectify=False))


Step = tuple[int, b.Size]
"""A convolution of a branch: its width and its kernel."""


def inception_v3(num_classes: int = 1000) -> Symbol:
    """Inception-v3 (Szegedy et al. 2015) as it predicts, for images of 299 times 299."""
    x = _chain(variable("data"), "stem_1", ((32, 3),), stride=2, pad=False)
    x = _chain(x, "stem_2", ((32, 3),), pad=False)
    x = b.max_pool(_chain(x, "stem_3", ((64, 3),)), "pool1")
    x = _chain(x, "stem_4", ((80, 1),))
    x = b.max_pool(_chain(x, "stem_5", ((192, 3),), pad=False), "pool2")
    for number, behind in enumerate((32, 64, 64), start=1):
        branches: Sequence[Sequence[Step]] = (
            ((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)),
        )  # fmt: skip
        x = _module(x, f"a{number}", branches, behind)
    x = _halved(x, "b1", (((384, 3),), ((64, 1), (96, 3), (96, 3))))
    for number, width in enumerate((128, 160, 160, 192), start=1):
        row, column = (1, 7), (7, 1)
        branches = (
            ((192, 1),),
            ((width, 1), (width, row), (192, column)),
            ((width, 1), (width, column), (width, row), (width, column), (192, row)),
        )
        x = _module(x, f"c{number}", branches, 192)
    x = _halved(x, "d1", (((192, 1), (320, 3)), ((192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3))))
    for number in (1, 2):
        x = _split_module(x, f"e{number}")
    x = b.dropout(b.global_average(x), "drop")
    return b.classes(b.dense(x, "fc", num_classes, rectify=False))


def _chain(x: Symbol, name: str, steps: Sequence[Step], *, stride: int = 1, pad: bool = True) -> Symbol:
    """Return convolutions one after the other; only the last has the stride, and may be without padding."""
    for number, (width, kernel) in enumerate(steps, start=1):
        is_last = number == len(steps)
        height, breadth = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        padding = (height // 2, breadth // 2) if pad or not is_last else 0
        own = name if len(steps) == 1 else f"{name}_{number}"
        x = b.normalised(x, own, width, kernel, stride=stride if is_last else 1, pad=padding, epsilon=1e-3)
    return x


def _module(x: Symbol, name: str, branches: Sequence[Sequence[Step]], behind: int) -> Symbol:
    with Prefix(f"mixed_{name}_"):
        ways = [_chain(x, f"way{number}", steps) for number, steps in enumerate(branches, start=1)]
        pooled = _chain(b.average_pool(x, "pool"), "proj", ((behind, 1),))
        return b.concat(*ways, pooled, name="output")


def _halved(x: Symbol, name: str, branches: Sequence[Sequence[Step]]) -> Symbol:
    with Prefix(f"mixed_{name}_"):
        ways = [
            _chain(x, f"way{number}", steps, stride=2, pad=False)
            for number, steps in enumerate(branches, start=1)
        ]
        return b.concat(*ways, b.max_pool(x, "pool"), name="output")


def _split_module(x: Symbol, name: str) -> Symbol:
    """Return a module two of whose branches end in a row and a column side by side."""
    with Prefix(f"mixed_{name}_"):
        ways = [_chain(x, "way1", ((320, 1),))]
        for number, steps in enumerate((((384, 1),), ((448, 1), (384, 3))), start=2):
            y = _chain(x, f"way{number}", steps)
            ways += [_chain(y, f"way{number}_{way}", ((384, kernel),)) for way, kernel in SPLIT.items()]
        ways.append(_chain(b.average_pool(x, "pool"), "proj", ((192, 1),)))
        return b.concat(*ways, name="output")


SPLIT: dict[str, b.Size] = {"row": (1, 3), "column": (3, 1)}


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
