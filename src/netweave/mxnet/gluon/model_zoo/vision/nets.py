"""Nets of Gluon's zoo."""

from __future__ import annotations

from typing import Any

from netweave.mxnet import initializer as init
from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.block import HybridBlock
from netweave.mxnet.gluon.contrib.nn import HybridConcurrent, Identity


class Network(HybridBlock):
    """A network: a subclass sets ``features`` and ``output``."""

    features: HybridBlock
    output: HybridBlock

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the scores of the classes."""
        return self.output(self.features(x))


def row(*blocks: HybridBlock, prefix: str = "") -> nn.HybridSequential:
    """Return blocks one behind the other."""
    blocks_in_row = nn.HybridSequential(prefix=prefix)
    blocks_in_row.add(*blocks)
    return blocks_in_row


def normalised(convolution: HybridBlock, **settings: Any) -> list[HybridBlock]:
    """Return a convolution with batch normalisation and ReLU behind it."""
    return [convolution, nn.BatchNorm(**settings), nn.Activation("relu")]


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
    concurrent = HybridConcurrent(axis=1, prefix=prefix)
    concurrent.add(*branches)
    return concurrent


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


def _conv_branched(channels: int, kernel: Any, strides: Any = 1, padding: Any = 0) -> HybridBlock:
    return row(*normalised(nn.Conv2D(channels, kernel, strides, padding, use_bias=False), epsilon=0.001))


def _branch(pool: str | None, *convolutions: Convolution) -> HybridBlock:
    pools = {"avg": lambda: [nn.AvgPool2D(3, 1, 1)], "max": lambda: [nn.MaxPool2D(3, 2)]}
    return row(*(pools[pool]() if pool else []), *(_conv_branched(*one) for one in convolutions))


def _block(prefix: str, *branches: Any) -> HybridBlock:
    """Return branches side by side: each a pool and convolutions, or a function that makes one."""
    concurrent = HybridConcurrent(axis=1, prefix=prefix)
    with concurrent.name_scope():
        for branch in branches:
            concurrent.add(branch() if callable(branch) else _branch(*branch))
    return concurrent


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
            self.features.add(
                _conv_branched(32, 3, 2),
                _conv_branched(32, 3),
                _conv_branched(64, 3, 1, 1),
                nn.MaxPool2D(3, 2),
            )
            self.features.add(_conv_branched(80, 1), _conv_branched(192, 3), nn.MaxPool2D(3, 2))
            self.features.add(_a(32, "A1_"), _a(64, "A2_"), _a(64, "A3_"), _b("B_"))
            self.features.add(*(_c(width, f"C{n}_") for n, width in enumerate((128, 160, 160, 192), 1)))
            self.features.add(_d("D_"), _e("E1_"), _e("E2_"), nn.AvgPool2D(8), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


class RELU6(HybridBlock):
    """A rectifier that ends at 6."""

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""
        return F.clip(x, a_min=0, a_max=6, name="relu6")


def _add(
    out: nn.HybridSequential,
    channels: int,
    kernel: int = 1,
    stride: int = 1,
    *,
    groups: int = 1,
    active: bool = True,
    relu6: bool = False,
) -> None:
    out.add(nn.Conv2D(channels, kernel, stride, kernel // 2, groups=groups, use_bias=False))
    out.add(nn.BatchNorm(scale=True))
    if active:
        out.add(RELU6() if relu6 else nn.Activation("relu"))


class LinearBottleneck(HybridBlock):
    """A block that is wide inside (MobileNetV2).

    Args:
        inputs: Channels of its input.
        channels: Channels of its output.
        expansion: How many times wider it is inside.
        stride: Stride of the convolution in the middle.
        kwargs: As for all blocks.
    """

    def __init__(self, inputs: int, channels: int, *, expansion: int, stride: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._is_residual = stride == 1 and inputs == channels
        wide = inputs * expansion
        with self.name_scope():
            self.out = nn.HybridSequential()
            _add(self.out, wide, relu6=True)
            _add(self.out, wide, 3, stride, groups=wide, relu6=True)
            _add(self.out, channels, active=False)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""
        return F.elemwise_add(self.out(x), x) if self._is_residual else self.out(x)


class MobileNet(Network):
    """MobileNet: a convolution for each channel, then one over channels.

    Args:
        multiplier: Share of the channels that there are.
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        widths = [int(one * multiplier) for one in (32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)]
        strides = [1, 2] * 3 + [1] * 5 + [2, 1]
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                _add(self.features, widths[0], 3, 2)
                for inputs, channels, stride in zip(widths, widths[1:], strides, strict=False):
                    _add(self.features, inputs, 3, stride, groups=inputs)
                    _add(self.features, channels)
                self.features.add(nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes)


class MobileNetV2(Network):
    """MobileNetV2: blocks that are wide inside.

    Args:
        multiplier: Share of the channels that there are.
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(self, multiplier: float = 1.0, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        counted = ((32, 1), (16, 1), (24, 2), (32, 3), (64, 4), (96, 3), (160, 3), (320, 1))
        widths = [int(width * multiplier) for width, count in counted for _ in range(count)]
        strides = [1, 2, 1, 2, 1, 1, 2, *[1] * 6, 2, 1, 1, 1]
        last = int(1280 * multiplier) if multiplier > 1 else 1280
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="features_")
            with self.features.name_scope():
                _add(self.features, widths[0], 3, 2, relu6=True)
                for number, stride in enumerate(strides):
                    inputs, channels = widths[number : number + 2]
                    expansion = 1 if number == 0 else 6
                    self.features.add(LinearBottleneck(inputs, channels, expansion=expansion, stride=stride))
                _add(self.features, last, relu6=True)
                self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.HybridSequential(prefix="output_")
            with self.output.name_scope():
                self.output.add(nn.Conv2D(classes, 1, use_bias=False, prefix="pred_"), nn.Flatten())


VGG_LAYERS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
"""Convolutions of each of the five stages."""


class AlexNet(Network):
    """AlexNet of one column (Krizhevsky, 2014).

    Args:
        classes: Scores of the output.
        kwargs: As for all blocks.
    """

    def __init__(self, classes: int = 1000, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            with self.features.name_scope():
                for channels, kernel, stride, pad, pools in (
                    (64, 11, 4, 2, True),
                    (192, 5, 1, 2, True),
                    (384, 3, 1, 1, False),
                    (256, 3, 1, 1, False),
                    (256, 3, 1, 1, True),
                ):
                    self.features.add(nn.Conv2D(channels, kernel, stride, pad, activation="relu"))
                    if pools:
                        self.features.add(nn.MaxPool2D(3, 2))
                self.features.add(nn.Flatten())
                for _ in range(2):
                    self.features.add(nn.Dense(4096, activation="relu"), nn.Dropout(0.5))
            self.output = nn.Dense(classes)


class VGG(Network):
    """VGG (Simonyan and Zisserman, 2014).

    Args:
        depth: 11, 13, 16 or 19.
        classes: Scores of the output.
        batch_norm: Whether there is batch normalisation behind each convolution.
        kwargs: As for all blocks.
    """

    def __init__(self, depth: int, classes: int = 1000, batch_norm: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            for count, channels in zip(VGG_LAYERS[depth], (64, 128, 256, 512, 512), strict=True):
                for _ in range(count):
                    rule = init.Xavier(rnd_type="gaussian", factor_type="out", magnitude=2)
                    self.features.add(
                        nn.Conv2D(channels, 3, padding=1, weight_initializer=rule, bias_initializer="zeros")
                    )
                    if batch_norm:
                        self.features.add(nn.BatchNorm())
                    self.features.add(nn.Activation("relu"))
                self.features.add(nn.MaxPool2D(strides=2))
            for _ in range(2):
                self.features.add(self._dense(4096, activation="relu"), nn.Dropout(rate=0.5))
            self.output = self._dense(classes)

    @staticmethod
    def _dense(units: int, **settings: Any) -> nn.Dense:
        return nn.Dense(units, weight_initializer="normal", bias_initializer="zeros", **settings)


LAYERS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""Blocks of each of the four stages."""


def _conv_residual(
    channels: int, kernel: int, stride: int = 1, inputs: int = 0, *, bias: bool = False
) -> nn.Conv2D:
    return nn.Conv2D(channels, kernel, stride, kernel // 2, use_bias=bias, in_channels=inputs)


class BlockV1(HybridBlock):
    """A block with normalisation behind each convolution.

    Args:
        channels: Channels of its output.
        stride: Stride of its first convolution.
        inputs: Channels of its input.
        bottleneck: Whether there are three convolutions, the middle one narrow.
        downsample: Whether the shortcut is a convolution.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        channels: int,
        stride: int,
        inputs: int,
        *,
        bottleneck: bool,
        downsample: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        narrow = channels // 4
        if bottleneck:
            self.body = row(
                *normalised(_conv_residual(narrow, 1, stride, bias=True)),
                *normalised(_conv_residual(narrow, 3, 1, narrow)),
                *normalised(_conv_residual(channels, 1, bias=True))[:2],
            )
        else:
            self.body = row(
                *normalised(_conv_residual(channels, 3, stride, inputs)),
                *normalised(_conv_residual(channels, 3, 1, channels))[:2],
            )
        self.downsample = None
        if downsample:
            self.downsample = row(*normalised(_conv_residual(channels, 1, stride, inputs))[:2])

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.Activation(self.body(x) + shortcut, act_type="relu")


class BlockV2(HybridBlock):
    """A block with normalisation before each convolution.

    Args:
        channels: Channels of its output.
        stride: Stride of the 3x3 convolution that has one.
        inputs: Channels of its input.
        bottleneck: Whether there are three convolutions, the middle one narrow.
        downsample: Whether the shortcut is a convolution.
        kwargs: As for all blocks.
    """

    def __init__(
        self,
        channels: int,
        stride: int,
        inputs: int,
        *,
        bottleneck: bool,
        downsample: bool,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        narrow = channels // 4
        if bottleneck:
            convolutions = [(narrow, 1, 1, 0), (narrow, 3, stride, narrow), (channels, 1, 1, 0)]
        else:
            convolutions = [(channels, 3, stride, inputs), (channels, 3, 1, channels)]
        self._steps = []
        for number, settings in enumerate(convolutions, 1):
            norm, conv = nn.BatchNorm(), _conv_residual(*settings)
            setattr(self, f"bn{number}", norm)
            setattr(self, f"conv{number}", conv)
            self._steps.append((norm, conv))
        self.downsample = _conv_residual(channels, 1, stride, inputs) if downsample else None

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the output."""
        shortcut = x
        for number, (norm, conv) in enumerate(self._steps):
            x = F.Activation(norm(x), act_type="relu")
            if number == 0 and self.downsample is not None:
                shortcut = self.downsample(x)
            x = conv(x)
        return x + shortcut


def _stages(block: type[BlockV1 | BlockV2], depth: int) -> list[HybridBlock]:
    wide = depth >= 50
    widths = [64, *((256, 512, 1024, 2048) if wide else (64, 128, 256, 512))]
    layers: list[HybridBlock] = []
    for stage, count in enumerate(LAYERS[depth]):
        inputs, channels = widths[stage : stage + 2]
        layer = nn.HybridSequential(prefix=f"stage{stage + 1}_")
        with layer.name_scope():
            for number in range(count):
                first = number == 0
                layer.add(
                    block(
                        channels,
                        2 if first and stage > 0 else 1,
                        inputs if first else channels,
                        bottleneck=wide,
                        downsample=first and channels != inputs,
                        prefix="",
                    )
                )
        layers.append(layer)
    return layers


def _stem(thumbnail: bool) -> list[HybridBlock]:
    if thumbnail:
        return [_conv_residual(64, 3)]
    return [*normalised(nn.Conv2D(64, 7, 2, 3, use_bias=False)), nn.MaxPool2D(3, 2, 1)]


class ResNetV1(Network):
    """ResNet with normalisation behind the convolutions.

    Args:
        depth: 18, 34, 50, 101 or 152.
        classes: Scores of the output.
        thumbnail: Whether it is for small images.
        kwargs: As for all blocks.
    """

    def __init__(self, depth: int, classes: int = 1000, thumbnail: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(*_stem(thumbnail))
            self.features.add(*_stages(BlockV1, depth))
            self.features.add(nn.GlobalAvgPool2D())
            self.output = nn.Dense(classes, in_units=512 if depth < 50 else 2048)


class ResNetV2(Network):
    """ResNet with normalisation before the convolutions.

    Args:
        depth: 18, 34, 50, 101 or 152.
        classes: Scores of the output.
        thumbnail: Whether it is for small images.
        kwargs: As for all blocks.
    """

    def __init__(self, depth: int, classes: int = 1000, thumbnail: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        with self.name_scope():
            self.features = nn.HybridSequential(prefix="")
            self.features.add(nn.BatchNorm(scale=False, center=False))
            self.features.add(*_stem(thumbnail))
            self.features.add(*_stages(BlockV2, depth))
            self.features.add(nn.BatchNorm(), nn.Activation("relu"), nn.GlobalAvgPool2D(), nn.Flatten())
            self.output = nn.Dense(classes, in_units=512 if depth < 50 else 2048)
