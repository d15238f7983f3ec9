"""VGG-16 (``chainercv.links.model.vgg``)."""

from __future__ import annotations

from typing import Any

from netweave.formats.chainer.shim.chainercv.blocks import Conv2DActiv, PickableSequentialChain
from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.links.connection import Linear
from netweave.formats.chainer.shim.links.table import Signed, takes

BLOCKS = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""How many convolutions each block has, and their channels."""


def _pool(x: Any) -> Any:
    return F["max_pooling_2d"](x, ksize=2)


@cv_link
@takes("n_class=None, pretrained_model=None, mean=None, initialW=None, initial_bias=None")
class VGG16(Signed, PickableSequentialChain):
    """Blocks of convolutions and three dense layers, whose activations are parts of their own."""

    def _build(self, n_class: Any, pretrained_model: Any) -> None:
        classes = number_of("n_class", n_class, pretrained_model, 1000)
        with self.init_scope():
            for block, (depth, channels) in enumerate(BLOCKS, start=1):
                for number in range(1, depth + 1):
                    setattr(self, f"conv{block}_{number}", Conv2DActiv(None, channels, 3, 1, 1))
                setattr(self, f"pool{block}", _pool)
            for name in ("fc6", "fc7"):
                setattr(self, name, Linear(None, 4096))
                setattr(self, f"{name}_relu", F["relu"])
                setattr(self, f"{name}_dropout", F["dropout"])
            self.fc8 = Linear(None, classes)
            self.prob = F["softmax"]
