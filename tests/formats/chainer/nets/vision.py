"""Blocks of ChainerCV with their options, and what Chainer 1 had otherwise: an output for each."""

import chainer
import chainer.functions as F  # noqa: N812 (as everybody calls them)
import chainer.links as L  # noqa: N812
from chainercv.links import (
    Conv2DActiv,
    Conv2DBNActiv,
    PickableSequentialChain,
    SEBlock,
    SeparableConv2DBNActiv,
)
from chainercv.links.model.resnet import ResBlock
from chainercv.links.model.ssd import Multibox, Normalize
from chainercv.links.model.yolo import ResidualBlock


class Stem(PickableSequentialChain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv = Conv2DActiv(None, 4, 3, pad=1)
            self.pool = lambda x: F.max_pooling_2d(x, 2)
            self.last = L.Convolution2D(4, 6, 1)


class Vision(chainer.Chain):
    """Takes (N, 4, 9, 10)."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.dilated = Conv2DActiv(4, 4, 3, pad=2, dilate=2, activ=F.sigmoid)
            self.short = Conv2DActiv(4, 3)
            self.plain = Conv2DBNActiv(4, 5, 3, 2, 1, activ=None, nobias=False, bn_kwargs={"eps": 1e-3})
            self.grouped = Conv2DBNActiv(4, 4, 3, pad=1, groups=2, activ=F.tanh)
            self.separable = SeparableConv2DBNActiv(4, 6, 3, pad=1, dw_activ=F.relu)
            self.scaled = SEBlock(4, ratio=2)
            self.stage = ResBlock(2, 4, 4, 32, 2, groups=2, add_seblock=True)
            self.first = ResBlock(2, None, 2, 8, 2, stride_first=True)
            self.stem = Stem()
            self.norm = Normalize(4)
            self.boxes = Multibox(3, ((2,), (2, 3)))
            self.residual = ResidualBlock(Conv2DBNActiv(4, 2, 1), Conv2DBNActiv(2, 4, 3, pad=1))
        self.stem.pick = ("last", "conv")

    def forward(self, x):
        top, places = F.max_pooling_2d(x, 2, 2, return_indices=True)
        even, inside = F.max_pooling_2d(x, 3, return_indices=True, cover_all=False)
        loc, conf = self.boxes((x, top))
        return (
            self.dilated(x),
            self.short(x),
            self.plain(x),
            self.grouped(x),
            self.separable(x),
            self.scaled(x),
            self.stage(x),
            self.stage["a"](x),
            self.first(x),
            *self.stem(x),
            self.norm(x),
            loc,
            conf,
            self.residual(x),
            F.mean_absolute_error(x, 2 * x),
            top,
            F.upsampling_2d(top, places, 2, outsize=(10, 10)),
            F.upsampling_2d(top, places, 2),
            F.upsampling_2d(F.relu(even), inside, 3, cover_all=False),
        )
