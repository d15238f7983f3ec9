"""The blocks of GoogLeNet (inception.py, inceptionbn.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.convolution import Convolution2D
from netweave.formats.chainer.shim.links.normalisation import BatchNormalization
from netweave.formats.chainer.shim.links.table import Signed, composite, takes

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


@composite
@takes("in_channels, out1, proj3, out3, proj5, out5, proj_pool, conv_init=None, bias_init=None")
class Inception(Signed, Chain):
    """Four branches of GoogLeNet."""

    def _build(
        self, in_channels: Any, out1: int, proj3: int, out3: int, proj5: int, out5: int, proj_pool: int
    ) -> None:
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
@takes(
    "in_channels, out1, proj3, out3, proj33, out33, pooltype, proj_pool=None, stride=1, conv_init=None, "
    "dtype=None"
)
class InceptionBN(Signed, Chain):
    """The block with normalisation, with or without its first branch and its projection."""

    def _build(
        self,
        in_channels: Any,
        out1: int,
        proj3: int,
        out3: int,
        proj33: int,
        out33: int,
        pooltype: str,
        proj_pool: int | None,
        stride: int,
    ) -> None:
        self.stride, self.pooltype = stride, pooltype
        windows: dict[str, tuple[Any, ...]] = {
            "proj3": (in_channels, proj3, 1),
            "conv3": (proj3, out3, 3, stride, 1),
            "proj33": (in_channels, proj33, 1),
            "conv33a": (proj33, out33, 3, 1, 1),
            "conv33b": (out33, out33, 3, stride, 1),
        }
        if out1 > 0:
            windows["conv1"] = (in_channels, out1, 1, stride)
        if proj_pool is not None:
            windows["poolp"] = (in_channels, proj_pool, 1)
        with self.init_scope():
            for name, window in windows.items():
                setattr(self, name, Convolution2D(*window, nobias=True))
                setattr(self, f"{name}n", BatchNormalization(window[1]))

    def _normalised(self, name: str, x: Any) -> Variable:
        return F["relu"](self[f"{name}n"](self[name](x)))

    def forward(self, x: Any) -> Variable:
        """The branches after one another."""
        outs = [self._normalised("conv1", x)] if "conv1" in self._children else []
        outs.append(self._normalised("conv3", self._normalised("proj3", x)))
        h = self._normalised("conv33a", self._normalised("proj33", x))
        outs.append(self._normalised("conv33b", h))
        if self.pooltype == "max":
            p = F["max_pooling_2d"](x, 3, stride=self.stride, pad=1, cover_all=False)
        else:
            p = F["average_pooling_2d"](x, 3, stride=self.stride, pad=1)
        outs.append(self._normalised("poolp", p) if "poolp" in self._children else p)
        return F["concat"](outs, axis=1)
