"""Convolutions and their transposes (``chainer.links.connection``).

Chainer lets the first argument, the input's channels, be left out: the others move up by one, and the
first call tells.
"""

from __future__ import annotations

from typing import Any

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.table import pair
from netweave.formats.chainer.shim.link import Link
from netweave.formats.chainer.shim.links.table import composite, link
from netweave.formats.chainer.shim.variable import Parameter, Variable


class _Windowed(Link):
    """A link that slides; what else its function takes are attributes of the same names, as in Chainer."""

    function: str

    def _set_up(
        self,
        rank: int,
        sizes: tuple[Any, Any, Any],
        nobias: bool,
        *,
        groups: int = 1,
        **settings: Any,
    ) -> None:
        in_channels, out_channels, ksize = sizes if sizes[2] is not None else (None, *sizes[:2])
        self.out_channels, self.groups = int(out_channels), int(groups)
        self.kernel = pair(ksize, rank)
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
        made: Variable = F[self.function](x, self.W, self.b, **settings)
        return made


@link
class Convolution2D(_Windowed):
    """Cross-correlation over images."""

    function = "convolution_2d"

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
        *,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        sizes = (in_channels, out_channels, ksize)
        self._set_up(2, sizes, nobias, groups=groups, stride=stride, pad=pad, dilate=dilate)


@link
class ConvolutionND(_Windowed):
    """Cross-correlation over any number of axes."""

    function = "convolution_nd"

    def __init__(
        self,
        ndim: int,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
        cover_all: bool = False,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        sizes, settings = (in_channels, out_channels, ksize), {"cover_all": cover_all, "dilate": dilate}
        self._set_up(ndim, sizes, nobias, groups=groups, stride=stride, pad=pad, **settings)


@composite
class Convolution1D(ConvolutionND):
    """Cross-correlation over sequences."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
        cover_all: bool = False,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        sizes = (in_channels, out_channels, ksize, stride, pad, nobias)
        super().__init__(1, *sizes, cover_all=cover_all, dilate=dilate, groups=groups)


@composite
class Convolution3D(ConvolutionND):
    """Cross-correlation over volumes."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
        cover_all: bool = False,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        sizes = (in_channels, out_channels, ksize, stride, pad, nobias)
        super().__init__(3, *sizes, cover_all=cover_all, dilate=dilate, groups=groups)


@link
class DilatedConvolution2D(_Windowed):
    """Cross-correlation with gaps."""

    function = "dilated_convolution_2d"

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        dilate: Any = 1,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
    ) -> None:
        super().__init__()
        self._set_up(2, (in_channels, out_channels, ksize), nobias, stride=stride, pad=pad, dilate=dilate)


class _Transposed(_Windowed):
    """A link whose window is the input's channels first."""

    function = "deconvolution_2d"

    def _sizes(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels // self.groups, *self.kernel)


@link
class Deconvolution2D(_Transposed):
    """The transpose of a convolution over images."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        outsize: Any = None,
        initialW: Any = None,
        initial_bias: Any = None,
        *,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        sizes, settings = (in_channels, out_channels, ksize), {"outsize": outsize, "dilate": dilate}
        self._set_up(2, sizes, nobias, groups=groups, stride=stride, pad=pad, **settings)


@link
class DeconvolutionND(_Transposed):
    """The transpose of a convolution over any number of axes."""

    def __init__(
        self,
        ndim: int,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        outsize: Any = None,
        initialW: Any = None,
        initial_bias: Any = None,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        super().__init__()
        sizes, settings = (in_channels, out_channels, ksize), {"outsize": outsize, "dilate": dilate}
        self._set_up(ndim, sizes, nobias, groups=groups, stride=stride, pad=pad, **settings)


@composite
class Deconvolution1D(DeconvolutionND):
    """The transpose of a convolution over sequences."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        outsize: Any = None,
        initialW: Any = None,
        initial_bias: Any = None,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        sizes = (in_channels, out_channels, ksize, stride, pad, nobias)
        super().__init__(1, *sizes, outsize=outsize, dilate=dilate, groups=groups)


@composite
class Deconvolution3D(DeconvolutionND):
    """The transpose of a convolution over volumes."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        outsize: Any = None,
        initialW: Any = None,
        initial_bias: Any = None,
        dilate: Any = 1,
        groups: int = 1,
    ) -> None:
        sizes = (in_channels, out_channels, ksize, stride, pad, nobias)
        super().__init__(3, *sizes, outsize=outsize, dilate=dilate, groups=groups)


@link
class DepthwiseConvolution2D(Link):
    """Every channel by itself."""

    def __init__(
        self,
        in_channels: Any,
        channel_multiplier: int,
        ksize: Any,
        stride: Any = 1,
        pad: Any = 0,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
    ) -> None:
        super().__init__()
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
        made: Variable = F["depthwise_convolution_2d"](x, self.W, self.b, self.stride, self.pad)
        return made
