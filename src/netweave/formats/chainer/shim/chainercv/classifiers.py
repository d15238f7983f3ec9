"""Classifying and segmenting nets of ChainerCV."""

from __future__ import annotations

from typing import Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.chainercv.detectors import (
    Conv2DActiv,
    Conv2DBNActiv,
    PickableSequentialChain,
    SEBlock,
)
from netweave.formats.chainer.shim.chainercv.table import cv_link, number_of
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain
from netweave.formats.chainer.shim.links.convolution import BatchNormalization, Convolution2D, Linear
from netweave.formats.chainer.shim.links.model import DEPTHS
from netweave.formats.chainer.shim.links.table import Signed, takes
from netweave.formats.chainer.shim.recorder import Variable


@cv_link
@takes(
    "in_channels, mid_channels, out_channels, stride=1, dilate=1, groups=1, initialW=None, "
    "bn_kwargs=None, residual_conv=False, stride_first=False, add_seblock=False"
)
class Bottleneck(Signed, Chain):
    """Three convolutions beside what comes in."""

    def _build(
        self,
        in_channels: Any,
        mid_channels: int,
        out_channels: int,
        stride: int,
        dilate: int,
        groups: int,
        bn_kwargs: Any,
        residual_conv: bool,
        stride_first: bool,
        add_seblock: bool,
    ) -> None:
        first, second = (stride, 1) if stride_first else (1, stride)
        settings = {"bn_kwargs": bn_kwargs}
        self.has_seblock, self.has_projection = add_seblock, residual_conv
        with self.init_scope():
            self.conv1 = Conv2DBNActiv(in_channels, mid_channels, 1, first, **settings)
            self.conv2 = Conv2DBNActiv(
                mid_channels, mid_channels, 3, second, dilate, dilate, groups, **settings
            )
            self.conv3 = Conv2DBNActiv(mid_channels, out_channels, 1, activ=None, **settings)
            if add_seblock:
                self.se = SEBlock(out_channels)
            if residual_conv:
                self.residual_conv = Conv2DBNActiv(
                    in_channels, out_channels, 1, stride, activ=None, **settings
                )

    def forward(self, x: Any) -> Variable:
        """The sum of both ways."""
        h = self.conv3(self.conv2(self.conv1(x)))
        h = self.se(h) if self.has_seblock else h
        return F["relu"](h + (self.residual_conv(x) if self.has_projection else x))


@cv_link
@takes(
    "n_layer, in_channels, mid_channels, out_channels, stride, dilate=1, groups=1, initialW=None, "
    "bn_kwargs=None, stride_first=False, add_seblock=False"
)
class ResBlock(Signed, PickableSequentialChain):
    """Bottlenecks ``a``, ``b1``, ``b2``, ...; the first changes the sizes."""

    def _build(
        self,
        n_layer: int,
        in_channels: Any,
        out_channels: int,
        stride: int,
        stride_first: bool,
        **settings: Any,
    ) -> None:
        settings["out_channels"] = out_channels
        with self.init_scope():
            self.a = Bottleneck(
                in_channels, stride=stride, residual_conv=True, stride_first=stride_first, **settings
            )
            for number in range(1, n_layer):
                setattr(self, f"b{number}", Bottleneck(out_channels, **settings))


def _first_pool(x: Any) -> Any:
    return F["max_pooling_2d"](x, ksize=3, stride=2)


def _mean(x: Any) -> Any:
    return F["average"](x, axis=(2, 3))


class _Stages(PickableSequentialChain):
    """A convolution, four stages and a dense layer; ``prob`` gives the probabilities."""

    def _set_up(
        self,
        n_layer: int,
        classes: int,
        *,
        has_bias: bool = False,
        width: int = 64,
        **settings: Any,
    ) -> None:
        if n_layer not in DEPTHS:
            raise CodeError(f"is called with n_layer={n_layer}, expected {', '.join(map(str, DEPTHS))}")
        with self.init_scope():
            self.conv1 = Conv2DBNActiv(None, 64, 7, 2, 3, nobias=not has_bias)
            self.pool1 = _first_pool
            for number, depth in enumerate(DEPTHS[n_layer]):
                mid, out, stride = width << number, 256 << number, 1 if number == 0 else 2
                setattr(self, f"res{number + 2}", ResBlock(depth, None, mid, out, stride, **settings))
            self.pool5 = _mean
            self.fc6 = Linear(None, classes)
            self.prob = F["softmax"]


@cv_link
@takes("n_layer, n_class=None, pretrained_model=None, mean=None, initialW=None, fc_kwargs=None, arch='fb'")
class ResNet(Signed, _Stages):
    """ResNet by Facebook (``arch="fb"``) or by He, who strides in the first convolution of a bottleneck."""

    def _build(self, n_layer: int, n_class: Any, pretrained_model: Any, arch: str) -> None:
        if arch not in {"fb", "he"}:
            raise CodeError(f"is called with arch={arch!r}, expected 'fb' or 'he'")
        classes = number_of("n_class", n_class, pretrained_model, 1000)
        is_he = arch == "he"
        self._set_up(n_layer, classes, has_bias=is_he and n_layer == 50, stride_first=is_he)


@cv_link
@takes("n_layer, n_class=None, pretrained_model=None, mean=None, initialW=None, fc_kwargs=None")
class SEResNet(Signed, _Stages):
    """ResNet with a block in each bottleneck that scales the channels."""

    def _build(self, n_layer: int, n_class: Any, pretrained_model: Any) -> None:
        classes = number_of("n_class", n_class, pretrained_model, 1000)
        self._set_up(n_layer, classes, stride_first=True, add_seblock=True)


@cv_link
@takes("n_layer, n_class=None, pretrained_model=None, mean=None, initialW=None, fc_kwargs=None")
class SEResNeXt(Signed, _Stages):
    """The same with convolutions in 32 groups."""

    def _build(self, n_layer: int, n_class: Any, pretrained_model: Any) -> None:
        classes = number_of("n_class", n_class, pretrained_model, 1000)
        self._set_up(n_layer, classes, width=128, groups=32, add_seblock=True)


def _register(base: type[ResNet | SEResNet | SEResNeXt], n_layer: int) -> None:
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, n_layer, *args, **kwargs)

    cv_link(type(f"{base.__name__}{n_layer}", (base,), {"__init__": made, "__doc__": f"{n_layer} layers."}))


for _base, _depths in ((ResNet, (50, 101, 152)), (SEResNet, (50, 101, 152)), (SEResNeXt, (50, 101))):
    for _depth in _depths:
        _register(_base, _depth)


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


LEVELS = 4


@cv_link
class SegNetBasic(Chain):
    """Four levels down and up; each way up puts elements where the way down found them."""

    def __init__(self, n_class: Any = None, pretrained_model: Any = None, initialW: Any = None) -> None:
        super().__init__()
        self.n_class = number_of("n_class", n_class, pretrained_model)
        names = [f"conv{level}" for level in range(1, LEVELS + 1)]
        names += [f"conv_decode{level}" for level in range(LEVELS, 0, -1)]
        with self.init_scope():
            for number, name in enumerate(names):
                setattr(self, name, Convolution2D(64 if number else None, 64, 7, 1, 3, nobias=True))
                setattr(self, f"{name}_bn", BatchNormalization(64))
            self.conv_classifier = Convolution2D(64, self.n_class, 1)

    def _stage(self, name: str, x: Any) -> Any:
        return self[f"{name}_bn"](self[name](x))

    def forward(self, x: Any) -> Variable:
        """A score of each class for each pixel."""
        h = F["local_response_normalization"](x, 5, 1, 1e-4 / 5.0, 0.75)
        places = []
        for level in range(1, LEVELS + 1):
            h = F["relu"](self._stage(f"conv{level}", h))
            h, indices = F["max_pooling_2d"](h, 2, 2, return_indices=True)
            places.append(indices)
        for level in range(LEVELS, 0, -1):
            h = self._stage(f"conv_decode{level}", _larger(h, places.pop()))
        return self.conv_classifier(h)


def _larger(x: Any, places: Any) -> Variable:
    """Return twice the height and width; what lies outside the smaller of both is cut off."""
    height, width = (min(sizes) for sizes in zip(x.shape[2:], places.shape[2:], strict=True))
    if x.shape != places.shape:
        x, places = x[:, :, :height, :width], places[:, :, :height, :width]
    outsize = (2 * height, 2 * width)
    return F["upsampling_2d"](x, places, ksize=2, stride=2, outsize=outsize)
