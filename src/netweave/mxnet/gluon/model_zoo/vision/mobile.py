"""MobileNet of both versions (Howard et al., 2017; Sandler et al., 2018)."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.block import HybridBlock
from netweave.mxnet.gluon.model_zoo.vision.network import Network


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
