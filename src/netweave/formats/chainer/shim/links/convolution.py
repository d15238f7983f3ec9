"""Convolutions and their transposes (``chainer.links.connection``).

Chainer lets the first argument, the input's channels, be left out: the others move up by one, and the
first call tells.
"""

from __future__ import annotations

from typing import Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.table import pair
from netweave.formats.chainer.shim.link import Link
from netweave.formats.chainer.shim.links.table import Signed, composite, link, takes
from netweave.formats.chainer.shim.variable import Parameter, Variable


class _Windowed(Signed, Link):
    """A link that slides; what else its function takes are attributes of the same names, as in Chainer."""

    function: str
    rank = 0

    def _build(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        nobias: bool,
        *,
        ndim: int | None = None,
        groups: int = 1,
        **settings: Any,
    ) -> None:
        if ksize is None:
            in_channels, out_channels, ksize = None, in_channels, out_channels
        self.out_channels, self.groups = int(out_channels), int(groups)
        self.kernel = pair(ksize, ndim or self.rank)
        self._taken = tuple(settings)
        vars(self).update(settings)
        with self.init_scope():
            self.W = Parameter(shape=None if in_channels is None else self._sizes(int(in_channels)))
            self.b = None if nobias else Parameter(shape=(self.out_channels,), role="bias")

    def _sizes(self, channels: int) -> tuple[int, ...]:
        return (self.out_channels, channels // self.groups, *self.kernel)

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        if not self.W.is_initialized:
            self.W.initialize(self._sizes(int(x.shape[1])))
        settings = {name: getattr(self, name) for name in self._taken}
        if self.groups != 1:
            settings["groups"] = self.groups
        return F[self.function](x, self.W, self.b, **settings)


@link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False, "
    "initialW=None, initial_bias=None, *, dilate=1, groups=1"
)
class Convolution2D(_Windowed):
    """Cross-correlation over images."""

    function, rank = "convolution_2d", 2


@link
@takes(
    "ndim, in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False, "
    "initialW=None, initial_bias=None, cover_all=False, dilate=1, groups=1"
)
class ConvolutionND(_Windowed):
    """Cross-correlation over any number of axes."""

    function = "convolution_nd"


@link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, dilate=1, nobias=False, "
    "initialW=None, initial_bias=None"
)
class DilatedConvolution2D(_Windowed):
    """Cross-correlation with gaps."""

    function, rank = "dilated_convolution_2d", 2


class _Transposed(_Windowed):
    """A link whose window is the input's channels first."""

    def _sizes(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels // self.groups, *self.kernel)


@link
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False, outsize=None, "
    "initialW=None, initial_bias=None, *, dilate=1, groups=1"
)
class Deconvolution2D(_Transposed):
    """The transpose of a convolution over images."""

    function, rank = "deconvolution_2d", 2


@link
@takes(
    "ndim, in_channels, out_channels, ksize=None, stride=1, pad=0, nobias=False, outsize=None, "
    "initialW=None, initial_bias=None, dilate=1, groups=1"
)
class DeconvolutionND(_Transposed):
    """The transpose of a convolution over any number of axes."""

    function = "deconvolution_nd"


_FIXED = "in_channels, out_channels, ksize, stride=1, pad=0, nobias=False, "
for _name, _base, _doc, _settings in (
    ("Convolution", ConvolutionND, "Cross-correlation", "cover_all=False"),
    ("Deconvolution", DeconvolutionND, "The transpose of a convolution", "outsize=None"),
):
    for _rank, _what in ((1, "sequences"), (3, "volumes")):
        _kind = type(f"{_name}{_rank}D", (_base,), {"rank": _rank, "__doc__": f"{_doc} over {_what}."})
        _weights = "initialW=None, initial_bias=None"
        _order = [_weights, _settings] if _base is ConvolutionND else [_settings, _weights]
        composite(takes(f"{_FIXED}{', '.join(_order)}, dilate=1, groups=1")(_kind))


@link
@takes(
    "in_channels, channel_multiplier, ksize, stride=1, pad=0, nobias=False, initialW=None, initial_bias=None"
)
class DepthwiseConvolution2D(Signed, Link):
    """Every channel by itself."""

    def _build(
        self, in_channels: Any, channel_multiplier: int, ksize: Any, stride: Any, pad: Any, nobias: bool
    ) -> None:
        self.channel_multiplier, self.kernel = channel_multiplier, pair(ksize)
        self.stride, self.pad = stride, pad
        with self.init_scope():
            self.W = Parameter()
            self.b = None if nobias else Parameter(role="bias")
        if in_channels is not None:
            self._know(int(in_channels))

    def _know(self, channels: int) -> None:
        self.W.initialize((self.channel_multiplier, channels, *self.kernel))
        if self.b is not None:
            self.b.initialize((self.channel_multiplier * channels,))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        if not self.W.is_initialized:
            self._know(int(x.shape[1]))
        return F["depthwise_convolution_2d"](x, self.W, self.b, self.stride, self.pad)
