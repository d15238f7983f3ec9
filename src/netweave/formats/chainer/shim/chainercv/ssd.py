"""SSD up to its raw boxes (``chainercv.links.model.ssd``); what makes boxes of them is no part of the net."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, ChainList, Link
from netweave.formats.chainer.shim.links.convolution import Convolution2D, DilatedConvolution2D
from netweave.formats.chainer.shim.links.table import Signed, settled, takes
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Parameter

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable

    Pair = tuple[Variable, Variable]


@cv_link
@settled
class Normalize(Link):
    """Length 1 along the channels, times a stored number for each."""

    def __init__(self, n_channel: int, initial: Any = 0, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        with self.init_scope():
            self.scale = Parameter(shape=(n_channel,), role="gamma")

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        record = current()
        shape = record.constant([1, self.scale.shape[0], 1, 1], dtype="int64")
        scale = record.add("Reshape", [self.scale, shape])
        return F["mul"](F["normalize"](x, eps=self.eps, axis=1), scale)


@cv_link
@takes("n_class, aspect_ratios, initialW=None, initial_bias=None")
class Multibox(Signed, Chain):
    """Convolutions that give each default box four numbers, and one for each class."""

    def _build(self, n_class: int, aspect_ratios: Any) -> None:
        self.n_class, self.aspect_ratios = n_class, aspect_ratios
        with self.init_scope():
            self.loc, self.conf = ChainList(), ChainList()
        for ratios in aspect_ratios:
            count = (len(ratios) + 1) * 2
            self.loc.append(Convolution2D(count * 4, 3, pad=1))
            self.conf.append(Convolution2D(count * n_class, 3, pad=1))

    def forward(self, xs: Any) -> Pair:
        """The four numbers and the classes of all boxes."""
        return (self._rows(self.loc, xs, 4), self._rows(self.conf, xs, self.n_class))

    def _rows(self, links: ChainList, xs: Any, width: int) -> Variable:
        rows = []
        for link, x in zip(links, xs, strict=True):
            last = F["transpose"](link(x), (0, 2, 3, 1))
            rows.append(F["reshape"](last, (last.shape[0], -1, width)))
        return F["concat"](rows, axis=1)


@cv_link
@takes("extractor, multibox, steps, sizes, variance=(0.1, 0.2), mean=0")
class SSD(Signed, Chain):
    """Maps of several sizes, and boxes from each."""

    def _build(self, extractor: Any, multibox: Any, mean: Any) -> None:
        self.mean = mean
        with self.init_scope():
            self.extractor, self.multibox = extractor, multibox

    @property
    def insize(self) -> int:
        """The side of its images."""
        return int(self.extractor.insize)

    @property
    def n_fg_class(self) -> int:
        """Classes without the background."""
        return int(self.multibox.n_class) - 1

    def use_preset(self, preset: str) -> None:
        """Thresholds, which count behind the net."""

    def forward(self, x: Any) -> Pair:
        """The four numbers and the classes of all boxes."""
        return self.multibox(self.extractor(x))


class _Base(Chain):
    """VGG-16 with its dense layers made convolutions."""

    further: tuple[tuple[int, int, int, int, int], ...]

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            for block, (depth, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512)), start=1):
                for number in range(1, depth + 1):
                    setattr(self, f"conv{block}_{number}", Convolution2D(channels, 3, pad=1))
            self.norm4 = Normalize(512)
            for number in range(1, 4):
                setattr(self, f"conv5_{number}", DilatedConvolution2D(512, 3, pad=1))
            self.conv6 = DilatedConvolution2D(1024, 3, pad=6, dilate=6)
            self.conv7 = Convolution2D(1024, 1)
            for block, (first, second, ksize, stride, pad) in enumerate(self.further, start=8):
                setattr(self, f"conv{block}_1", Convolution2D(first, 1))
                setattr(self, f"conv{block}_2", Convolution2D(second, ksize, stride=stride, pad=pad))

    def forward(self, x: Any) -> list[Any]:
        """The maps, the largest first."""
        maps: list[Any] = []
        for block, depth in enumerate((2, 2, 3, 3, 3), start=1):
            for number in range(1, depth + 1):
                x = F["relu"](self[f"conv{block}_{number}"](x))
            if block == 4:
                maps.append(self.norm4(x))
            x = F["max_pooling_2d"](x, 2) if block < 5 else F["max_pooling_2d"](x, 3, stride=1, pad=1)
        maps.append(F["relu"](self.conv7(F["relu"](self.conv6(x)))))
        for block in range(8, 8 + len(self.further)):
            h = F["relu"](self[f"conv{block}_1"](maps[-1]))
            maps.append(F["relu"](self[f"conv{block}_2"](h)))
        return maps


@cv_link
class VGG16Extractor300(_Base):
    """Six maps of images of 300 by 300."""

    insize = 300
    grids = (38, 19, 10, 5, 3, 1)
    further = ((256, 512, 3, 2, 1), (128, 256, 3, 2, 1), (128, 256, 3, 1, 0), (128, 256, 3, 1, 0))


@cv_link
class VGG16Extractor512(_Base):
    """Seven maps of images of 512 by 512."""

    insize = 512
    grids = (64, 32, 16, 8, 4, 2, 1)
    further = ((256, 512, 3, 2, 1), *[(128, 256, 3, 2, 1)] * 3, (128, 256, 4, 1, 1))


@cv_link
class SSD300(SSD):
    """8,732 boxes."""

    def __init__(self, n_fg_class: Any = None, pretrained_model: Any = None) -> None:
        classes = number_of("n_fg_class", n_fg_class, pretrained_model) + 1
        ratios = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
        super().__init__(VGG16Extractor300(), Multibox(classes, ratios), None, None)


@cv_link
class SSD512(SSD):
    """24,564 boxes."""

    def __init__(self, n_fg_class: Any = None, pretrained_model: Any = None) -> None:
        classes = number_of("n_fg_class", n_fg_class, pretrained_model) + 1
        ratios = ((2,), (2, 3), (2, 3), (2, 3), (2, 3), (2,), (2,))
        super().__init__(VGG16Extractor512(), Multibox(classes, ratios), None, None)
