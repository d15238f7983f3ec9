"""YOLO up to its raw boxes (``chainercv.links.model.yolo``); making boxes of them is no part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.chainercv.blocks import Conv2DBNActiv
from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, ChainList, Sequential
from netweave.formats.chainer.shim.links.convolution import Convolution2D

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable

    Parts = tuple[Variable, Variable, Variable]


def _leaky(x: Any) -> Any:
    return F["leaky_relu"](x, slope=0.1)


def _convolution(channels: int, ksize: int, stride: int = 1) -> Conv2DBNActiv:
    return Conv2DBNActiv(channels, ksize, stride=stride, pad=ksize // 2, activ=_leaky)


def _rows(x: Any, width: int) -> Any:
    last = F["transpose"](x, (0, 2, 3, 1))
    return F["reshape"](last, (last.shape[0], -1, width))


def _parts(rows: Any) -> Parts:
    return rows[:, :, :4], rows[:, :, 4], rows[:, :, 5:]


@cv_link
class YOLOBase(Chain):
    """Base of the versions of YOLO."""

    extractor: Any

    @property
    def insize(self) -> int:
        """The side of its images."""
        return int(self.extractor.insize)

    def use_preset(self, preset: str) -> None:
        """Thresholds, which count behind the net."""


def _pool(x: Any, ksize: int, stride: int) -> Any:
    """Pool as Darknet does, which lets the last windows overhang instead of the first."""
    pooled = F["max_pooling_2d"](x, ksize, stride=stride, pad=ksize - stride)
    return pooled[:, :, ksize - stride :, ksize - stride :] if ksize > stride else pooled


def _reorganised(x: Any) -> Any:
    """Return half the height and width, and four times the channels, in Darknet's order."""
    n, c, h, w = x.shape
    blocks = F["transpose"](F["reshape"](x, (n, c // 4, h, 2, w, 2)), (0, 3, 5, 1, 2, 4))
    return F["reshape"](blocks, (n, c * 4, h // 2, w // 2))


@cv_link
class Darknet19Extractor(ChainList):
    """Convolutions of 3 and of 1 in turn, and a way around that brings an early map in."""

    insize, grid = 416, 13

    def __init__(self) -> None:
        super().__init__()
        for level, count in enumerate((1, 1, 3, 3, 5, 5)):
            for number in range(count):
                channels, ksize = (32 << level, 3) if number % 2 == 0 else (32 << (level - 1), 1)
                self.append(_convolution(channels, ksize))
        for channels, ksize in ((1024, 3), (1024, 3), (64, 1), (1024, 3)):
            self.append(_convolution(channels, ksize))

    def forward(self, x: Any) -> Variable:
        """A map of 13 by 13."""
        early: Any = None
        for number, link in enumerate(self):
            x = link(x)
            if number == 12:
                early = x
            elif number == 19:
                x, early = early, x
            elif number == 20:
                x = F["concat"]((_reorganised(x), early))
            if number in {0, 1, 4, 7, 12}:
                x = _pool(x, 2, 2)
        return x


@cv_link
class DarknetExtractor(ChainList):
    """Eight convolutions with pools between them."""

    insize, grid = 416, 13

    def __init__(self) -> None:
        super().__init__()
        for level in range(7):
            self.append(_convolution(16 << level, 3))
        self.append(_convolution(1024, 3))

    def forward(self, x: Any) -> Variable:
        """A map of 13 by 13."""
        for number, link in enumerate(self):
            x = link(x)
            if number <= 5:
                x = _pool(x, 2, 2 if number < 5 else 1)
        return x


@cv_link
class YOLOv2Base(YOLOBase):
    """A map, and a convolution that gives five boxes for each place."""

    _extractor: type[ChainList]
    _anchors: Any = range(5)

    def __init__(self, n_fg_class: Any = None, pretrained_model: Any = None) -> None:
        super().__init__()
        self.n_fg_class = number_of("n_fg_class", n_fg_class, pretrained_model)
        with self.init_scope():
            self.extractor = self._extractor()
            self.subnet = Convolution2D(len(self._anchors) * (5 + self.n_fg_class), 1)

    def forward(self, x: Any) -> Parts:
        """Places, objectness and classes of all boxes."""
        return _parts(_rows(self.subnet(self.extractor(x)), 5 + self.n_fg_class))


@cv_link
class YOLOv2(YOLOv2Base):
    """By Darknet-19."""

    _extractor = Darknet19Extractor


@cv_link
class YOLOv2Tiny(YOLOv2Base):
    """By a small net."""

    _extractor = DarknetExtractor


@cv_link
class ResidualBlock(ChainList):
    """Links after one another, and what comes in added."""

    def forward(self, x: Any) -> Variable:
        """The sum."""
        h = x
        for link in self:
            h = link(h)
        return h + x


@cv_link
class Darknet53Extractor(ChainList):
    """Darknet-53, and three maps from it."""

    insize, grids = 416, (13, 26, 52)

    def __init__(self) -> None:
        super().__init__()
        self.append(_convolution(32, 3))
        for level, count in enumerate((1, 2, 8, 8, 4)):
            narrow, wide = 32 << level, 64 << level
            self.append(_convolution(wide, 3, 2))
            for _ in range(count):
                self.append(ResidualBlock(_convolution(narrow, 1), _convolution(wide, 3)))
        for number, channels in enumerate((512, 256, 128)):
            if number:
                self.append(_convolution(channels, 1))
            for width, ksize in ((channels, 1), (channels * 2, 3)) * 2 + ((channels, 1),):
                self.append(_convolution(width, ksize))

    def forward(self, x: Any) -> list[Any]:
        """The maps, the smallest first."""
        maps, kept = [], []
        for number, link in enumerate(self):
            x = link(x)
            if number in {33, 39, 45}:
                maps.append(x)
            elif number in {14, 23}:
                kept.append(x)
            elif number in {34, 40}:
                x = F["concat"]((F["unpooling_2d"](x, 2, cover_all=False), kept.pop()))
        return maps


@cv_link
class YOLOv3(YOLOBase):
    """Three maps, with three boxes for each place."""

    def __init__(self, n_fg_class: Any = None, pretrained_model: Any = None) -> None:
        super().__init__()
        self.n_fg_class = number_of("n_fg_class", n_fg_class, pretrained_model)
        with self.init_scope():
            self.extractor, self.subnet = Darknet53Extractor(), ChainList()
        for channels in (512, 256, 128):
            last = Convolution2D(3 * (5 + self.n_fg_class), 1)
            self.subnet.append(Sequential(_convolution(channels * 2, 3), last))

    def forward(self, x: Any) -> Parts:
        """Places, objectness and classes of all boxes."""
        maps = zip(self.subnet, self.extractor(x), strict=True)
        return _parts(F["concat"]([_rows(link(each), 5 + self.n_fg_class) for link, each in maps], axis=1))
