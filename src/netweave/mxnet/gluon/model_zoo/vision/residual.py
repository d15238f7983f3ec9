"""ResNet of both versions (He et al., 2015 and 2016)."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.block import HybridBlock
from netweave.mxnet.gluon.model_zoo.vision.network import Network, normalised, row

LAYERS = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""Blocks of each of the four stages."""


def _conv(channels: int, kernel: int, stride: int = 1, inputs: int = 0, *, bias: bool = False) -> nn.Conv2D:
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
                *normalised(_conv(narrow, 1, stride, bias=True)),
                *normalised(_conv(narrow, 3, 1, narrow)),
                *normalised(_conv(channels, 1, bias=True))[:2],
            )
        else:
            self.body = row(
                *normalised(_conv(channels, 3, stride, inputs)),
                *normalised(_conv(channels, 3, 1, channels))[:2],
            )
        self.downsample = None
        if downsample:
            self.downsample = row(*normalised(_conv(channels, 1, stride, inputs))[:2])

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
            norm, conv = nn.BatchNorm(), _conv(*settings)
            setattr(self, f"bn{number}", norm)
            setattr(self, f"conv{number}", conv)
            self._steps.append((norm, conv))
        self.downsample = _conv(channels, 1, stride, inputs) if downsample else None

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
    found: list[HybridBlock] = []
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
        found.append(layer)
    return found


def _stem(thumbnail: bool) -> list[HybridBlock]:
    if thumbnail:
        return [_conv(64, 3)]
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
