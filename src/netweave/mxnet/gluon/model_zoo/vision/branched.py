"""Networks whose layers run side by side: SqueezeNet, DenseNet and Inception 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.contrib.nn import HybridConcurrent, Identity
from netweave.mxnet.gluon.model_zoo.vision.network import Network, normalised, row

if TYPE_CHECKING:
    from netweave.mxnet.gluon.block import HybridBlock

DENSE_LAYERS = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""Channels of the first convolution, channels that a layer adds, and layers of each stage."""

Convolution = tuple[Any, ...]
"""Channels, kernel, stride and padding of a convolution of Inception."""


def _beside(*branches: HybridBlock, prefix: str = "") -> HybridConcurrent:
    found = HybridConcurrent(axis=1, prefix=prefix)
    found.add(*branches)
    return found


def _fire(squeeze: int, expand: int) -> HybridBlock:
    def convolution(channels: int, kernel: int) -> HybridBlock:
        return row(nn.Conv2D(channels, kernel, padding=kernel // 2), nn.Activation("relu"))

    return row(convolution(squeeze, 1), _beside(convolution(expand, 1), convolution(expand, 3)))


class SqueezeNet(Network):
    """SqueezeNet (Iandola et al., 2016).

    Args:
        version: ``1.0`` or ``1.1``.
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(self, version: str, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        stem = (96, 7) if version == "1.0" else (64, 3)
        groups: tuple[tuple[int, ...], ...] = ((16, 16, 32), (32, 48, 48, 64), (64,))
        if version == "1.1":
            groups = ((16, 16), (32, 32), (48, 48, 64, 64))
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.Conv2D(*stem, strides=2), nn.Activation("relu"))
            for group in groups:
                self.features.add(nn.MaxPool2D(3, 2, ceil_mode=True))
                self.features.add(*(_fire(squeeze, 4 * squeeze) for squeeze in group))
            self.features.add(nn.Dropout(0.5))
            self.output = row(nn.Conv2D(classes, 1), nn.Activation("relu"), nn.AvgPool2D(13), nn.Flatten())


def _before(convolution: HybridBlock) -> list[HybridBlock]:
    return [nn.BatchNorm(), nn.Activation("relu"), convolution]


def _dense_layer(growth: int, bottleneck: int, dropout: float) -> HybridBlock:
    layers = _before(nn.Conv2D(bottleneck * growth, 1, use_bias=False))
    layers += _before(nn.Conv2D(growth, 3, padding=1, use_bias=False))
    return _beside(Identity(), row(*layers, *([nn.Dropout(dropout)] if dropout else [])))


class DenseNet(Network):
    """DenseNet (Huang et al., 2016).

    Args:
        depth: 121, 161, 169 or 201.
        bn_size: Channels of a bottleneck, as a multiple of those that a layer adds.
        dropout: Share of elements dropped behind each layer.
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(
        self, depth: int, bn_size: int = 4, dropout: float = 0, classes: int = 1000, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        channels, growth, stages = DENSE_LAYERS[depth]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*normalised(nn.Conv2D(channels, 7, 2, 3, use_bias=False)))
            self.features.add(nn.MaxPool2D(3, 2, 1))
            for number, count in enumerate(stages, 1):
                stage = nn.HybridSequential(prefix=f"stage{number}_")
                with stage.name_scope():
                    for _ in range(count):
                        stage.add(_dense_layer(growth, bn_size, dropout))
                self.features.add(stage)
                channels += count * growth
                if number < len(stages):
                    channels //= 2
                    self.features.add(
                        row(*_before(nn.Conv2D(channels, 1, use_bias=False)), nn.AvgPool2D(2, 2))
                    )
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.AvgPool2D(7), nn.Flatten())
            self.output = nn.Dense(classes)


def _conv(channels: int, kernel: Any, strides: Any = 1, padding: Any = 0) -> HybridBlock:
    return row(*normalised(nn.Conv2D(channels, kernel, strides, padding, use_bias=False), epsilon=0.001))


def _branch(pool: str | None, *convolutions: Convolution) -> HybridBlock:
    pools = {"avg": lambda: [nn.AvgPool2D(3, 1, 1)], "max": lambda: [nn.MaxPool2D(3, 2)]}
    return row(*(pools[pool]() if pool else []), *(_conv(*one) for one in convolutions))


def _block(prefix: str, *branches: Any) -> HybridBlock:
    """Return branches side by side: each a pool and convolutions, or a function that makes one."""
    found = HybridConcurrent(axis=1, prefix=prefix)
    with found.name_scope():
        for branch in branches:
            found.add(branch() if callable(branch) else _branch(*branch))
    return found


def _a(pool_features: int, prefix: str) -> HybridBlock:
    wide = ((64, 1), (96, 3, 1, 1), (96, 3, 1, 1))
    branches = [(None, (64, 1)), (None, (48, 1), (64, 5, 1, 2)), (None, *wide), ("avg", (pool_features, 1))]
    return _block(prefix, *branches)


def _b(prefix: str) -> HybridBlock:
    return _block(prefix, (None, (384, 3, 2)), (None, (64, 1), (96, 3, 1, 1), (96, 3, 2)), ("max",))


def _c(channels: int, prefix: str) -> HybridBlock:
    across, down = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))
    short = ((channels, 1), (channels, *across), (192, *down))
    long = ((channels, 1), (channels, *down), (channels, *across), (channels, *down), (192, *across))
    return _block(prefix, (None, (192, 1)), (None, *short), (None, *long), ("avg", (192, 1)))


def _d(prefix: str) -> HybridBlock:
    long = ((192, 1), (192, (1, 7), 1, (0, 3)), (192, (7, 1), 1, (3, 0)), (192, 3, 2))
    return _block(prefix, (None, (192, 1), (320, 3, 2)), (None, *long), ("max",))


def _e(prefix: str) -> HybridBlock:
    def split() -> HybridBlock:
        return _beside(_branch(None, (384, (1, 3), 1, (0, 1))), _branch(None, (384, (3, 1), 1, (1, 0))))

    return _block(
        prefix,
        (None, (320, 1)),
        lambda: row(_branch(None, (384, 1)), split()),
        lambda: row(_branch(None, (448, 1), (384, 3, 1, 1)), split()),
        ("avg", (192, 1)),
    )


class Inception3(Network):
    """Inception 3 (Szegedy et al., 2015).

    Args:
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(_conv(32, 3, 2), _conv(32, 3), _conv(64, 3, 1, 1), nn.MaxPool2D(3, 2))
            self.features.add(_conv(80, 1), _conv(192, 3), nn.MaxPool2D(3, 2))
            self.features.add(_a(32, "A1_"), _a(64, "A2_"), _a(64, "A3_"), _b("B_"))
            self.features.add(*(_c(width, f"C{n}_") for n, width in enumerate((128, 160, 160, 192), 1)))
            self.features.add(_d("D_"), _e("E1_"), _e("E2_"), nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)
