"""The blocks of GoogLeNet (inception.py, inceptionbn.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.convolution import Convolution2D
from netweave.formats.chainer.shim.links.normalisation import BatchNormalization
from netweave.formats.chainer.shim.links.table import composite

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


@composite
class Inception(Chain):
    """Four branches of GoogLeNet."""

    def __init__(
        self,
        in_channels: Any,
        out1: int,
        proj3: int,
        out3: int,
        proj5: int,
        out5: int,
        proj_pool: int,
        conv_init: Any = None,
        bias_init: Any = None,
    ) -> None:
        super().__init__()
        with self.init_scope():
            self.conv1 = Convolution2D(in_channels, out1, 1)
            self.proj3 = Convolution2D(in_channels, proj3, 1)
            self.conv3 = Convolution2D(proj3, out3, 3, pad=1)
            self.proj5 = Convolution2D(in_channels, proj5, 1)
            self.conv5 = Convolution2D(proj5, out5, 5, pad=2)
            self.projp = Convolution2D(in_channels, proj_pool, 1)

    def forward(self, x: Any) -> Variable:
        """The branches after one another."""
        relu = F["relu"]
        outs = (
            self.conv1(x),
            self.conv3(relu(self.proj3(x))),
            self.conv5(relu(self.proj5(x))),
            self.projp(F["max_pooling_2d"](x, 3, stride=1, pad=1)),
        )
        return relu(F["concat"](outs, axis=1))


@composite
class InceptionBN(Chain):
    """The block with normalisation, with or without its first branch and its projection."""

    def __init__(
        self,
        in_channels: Any,
        out1: int,
        proj3: int,
        out3: int,
        proj33: int,
        out33: int,
        pooltype: str,
        proj_pool: int | None = None,
        stride: int = 1,
        conv_init: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.out1, self.proj_pool, self.stride, self.pooltype = out1, proj_pool, stride, pooltype
        with self.init_scope():
            self.proj3 = Convolution2D(in_channels, proj3, 1, nobias=True)
            self.conv3 = Convolution2D(proj3, out3, 3, pad=1, stride=stride, nobias=True)
            self.proj33 = Convolution2D(in_channels, proj33, 1, nobias=True)
            self.conv33a = Convolution2D(proj33, out33, 3, pad=1, nobias=True)
            self.conv33b = Convolution2D(out33, out33, 3, pad=1, stride=stride, nobias=True)
            self.proj3n = BatchNormalization(proj3)
            self.conv3n = BatchNormalization(out3)
            self.proj33n = BatchNormalization(proj33)
            self.conv33an = BatchNormalization(out33)
            self.conv33bn = BatchNormalization(out33)
            if out1 > 0:
                self.conv1 = Convolution2D(in_channels, out1, 1, stride=stride, nobias=True)
                self.conv1n = BatchNormalization(out1)
            if proj_pool is not None:
                self.poolp = Convolution2D(in_channels, proj_pool, 1, nobias=True)
                self.poolpn = BatchNormalization(proj_pool)

    def forward(self, x: Any) -> Variable:
        """The branches after one another."""
        relu = F["relu"]
        outs = [relu(self.conv1n(self.conv1(x)))] if self.out1 > 0 else []
        outs.append(relu(self.conv3n(self.conv3(relu(self.proj3n(self.proj3(x)))))))
        h = relu(self.conv33an(self.conv33a(relu(self.proj33n(self.proj33(x))))))
        outs.append(relu(self.conv33bn(self.conv33b(h))))
        if self.pooltype == "max":
            p = F["max_pooling_2d"](x, 3, stride=self.stride, pad=1, cover_all=False)
        else:
            p = F["average_pooling_2d"](x, 3, stride=self.stride, pad=1)
        outs.append(relu(self.poolpn(self.poolp(p))) if self.proj_pool is not None else p)
        return F["concat"](outs, axis=1)
