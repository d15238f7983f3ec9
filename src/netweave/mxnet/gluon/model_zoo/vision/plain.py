"""AlexNet and VGG: one layer behind the other."""

from __future__ import annotations

from typing import Any

from netweave.mxnet import initializer as init
from netweave.mxnet.gluon import nn
from netweave.mxnet.gluon.model_zoo.vision.network import Network

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
