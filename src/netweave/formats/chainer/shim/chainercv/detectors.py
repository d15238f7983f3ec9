"""Detectors of ChainerCV."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, ChainList, Link, Sequential
from netweave.formats.chainer.shim.links.convolution import (
    BatchNormalization,
    Convolution2D,
    DilatedConvolution2D,
    Linear,
)
from netweave.formats.chainer.shim.links.table import Signed, settled, takes
from netweave.formats.chainer.shim.recorder import Parameter, Variable, current

if TYPE_CHECKING:
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


Activation = Callable[[Any], Any] | None


def _normalised(size: int, bn_kwargs: dict[str, Any] | None) -> BatchNormalization:
    """Return a normalisation; over how many machines it is done counts in training alone."""
    settings = {name: value for name, value in (bn_kwargs or {}).items() if name != "comm"}
    return BatchNormalization(size, **settings)


@cv_link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, dilate=1, nobias=False, initialW=None, "
    "initial_bias=None, activ=relu"
)
class Conv2DActiv(Signed, Chain):
    """A convolution and an activation."""

    def _build(self, dilate: int, activ: Activation, **window: Any) -> None:
        self.activ = activ
        with self.init_scope():
            self.conv: Link
            if dilate > 1:
                self.conv = DilatedConvolution2D(dilate=dilate, **window)
            else:
                self.conv = Convolution2D(**window)

    def forward(self, x: Any) -> Variable:
        """One after the other."""
        convolved: Variable = self.conv(x)
        return convolved if self.activ is None else self.activ(convolved)


@cv_link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, dilate=1, groups=1, nobias=True, "
    "initialW=None, initial_bias=None, activ=relu, bn_kwargs=None"
)
class Conv2DBNActiv(Signed, Chain):
    """A convolution, a batch normalisation and an activation; without a bias unless it is asked for."""

    def _build(self, activ: Activation, bn_kwargs: dict[str, Any] | None, **window: Any) -> None:
        self.activ = activ
        with self.init_scope():
            self.conv = Convolution2D(**window)
            self.bn = _normalised(self.conv.out_channels, bn_kwargs)

    def forward(self, x: Any) -> Variable:
        """One after the other."""
        convolved: Variable = self.bn(self.conv(x))
        return convolved if self.activ is None else self.activ(convolved)


@cv_link
@takes(
    "in_channels, out_channels, ksize, stride=1, pad=0, dilate=1, nobias=False, dw_initialW=None, "
    "pw_initialW=None, dw_initial_bias=None, pw_initial_bias=None, dw_activ=identity, pw_activ=relu, "
    "bn_kwargs=None"
)
class SeparableConv2DBNActiv(Signed, Chain):
    """A convolution of each channel by itself and one of 1 by 1, both normalised."""

    def _build(
        self,
        in_channels: int,
        out_channels: int,
        nobias: bool,
        dw_activ: Activation,
        pw_activ: Activation,
        bn_kwargs: dict[str, Any] | None,
        **window: Any,
    ) -> None:
        self.dw_activ, self.pw_activ = dw_activ or F["identity"], pw_activ or F["identity"]
        with self.init_scope():
            self.depthwise = Convolution2D(
                in_channels, in_channels, nobias=nobias, groups=in_channels, **window
            )
            self.pointwise = Convolution2D(in_channels, out_channels, 1, nobias=nobias)
            self.dw_bn = _normalised(in_channels, bn_kwargs)
            self.pw_bn = _normalised(out_channels, bn_kwargs)

    def forward(self, x: Any) -> Variable:
        """Each by itself, then all together."""
        h = self.dw_activ(self.dw_bn(self.depthwise(x)))
        return self.pw_activ(self.pw_bn(self.pointwise(h)))


@cv_link
class SEBlock(Chain):
    """Every channel times a number that is computed from the means of all."""

    def __init__(self, n_channel: int, ratio: int = 16) -> None:
        super().__init__()
        with self.init_scope():
            self.down = Linear(n_channel, n_channel // ratio)
            self.up = Linear(n_channel // ratio, n_channel)

    def forward(self, u: Any) -> Variable:
        """The channels, each scaled."""
        means = F["average"](u, axis=(2, 3))
        scales = F["sigmoid"](self.up(F["relu"](self.down(means))))
        return u * F["reshape"](scales, (*scales.shape[:2], 1, 1))


@cv_link
class PickableSequentialChain(Chain):
    """Links and functions by name, called in the order of their names; some results can be asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.layer_names: list[str] = []
        self._picked: tuple[str, ...] | None = None
        self._is_one = True

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if getattr(self, "_is_open", False) and callable(value):
            self.layer_names.append(name)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in self.layer_names:
            self.layer_names.remove(name)

    @property
    def pick(self) -> Any:
        """Whose results are asked for: a name, several, or None for the last."""
        if self._picked is None:
            return None
        return self._picked[0] if self._is_one else self._picked

    @pick.setter
    def pick(self, names: str | Iterable[str] | None) -> None:
        self._is_one = names is None or isinstance(names, str)
        self._picked = (names,) if isinstance(names, str) else None if names is None else tuple(names)
        unknown = [name for name in self._picked or () if name not in self.layer_names]
        if unknown:
            raise CodeError(f"picks {unknown[0]!r}, expected one of {', '.join(self.layer_names)}")

    def remove_unused(self) -> None:
        """Drop what lies behind the last that is asked for."""
        if self._picked is not None:
            last = max(self.layer_names.index(name) for name in self._picked)
            for name in self.layer_names[last + 1 :]:
                delattr(self, name)

    def copy(self, mode: str = "share") -> Any:
        """A copy with an order of its own."""
        chain: Any = super().copy(mode)
        chain.layer_names = copy.copy(self.layer_names)
        return chain

    def forward(self, x: Any) -> Any:
        """Return the requested outputs."""
        wanted = self._picked or (self.layer_names[-1],)
        last = max(self.layer_names.index(name) for name in wanted)
        computed: dict[str, Any] = {}
        for name in self.layer_names[: last + 1]:
            computed[name] = x = self[name](x)
        picked = tuple(computed[name] for name in wanted)
        return picked[0] if self._is_one else picked


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
