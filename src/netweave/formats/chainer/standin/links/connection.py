"""Links with weights (``chainer.links.connection``)."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from netweave.formats.chainer.standin.functions import FUNCTIONS as F
from netweave.formats.chainer.standin.functions.table import pair
from netweave.formats.chainer.standin.link import Chain, ChainList, Link
from netweave.formats.chainer.standin.links.table import composite, link
from netweave.formats.chainer.standin.variable import Parameter, Variable


@link
class Linear(Link):
    """``x W^T + b``; the number of inputs may be left to the first call."""

    def __init__(
        self,
        in_size: Any,
        out_size: Any = None,
        nobias: bool = False,
        initialW: Any = None,
        initial_bias: Any = None,
    ) -> None:
        super().__init__()
        if out_size is None:
            in_size, out_size = None, in_size
        self.in_size, self.out_size = in_size, out_size
        with self.init_scope():
            self.W = Parameter(shape=None if in_size is None else (out_size, in_size))
            self.b = None if nobias else Parameter(shape=(out_size,), role="bias")

    def forward(self, x: Any, n_batch_axes: int = 1) -> Variable:
        """Apply the link."""
        if not self.W.is_initialized:
            self.W.initialize((self.out_size, prod(int(size) for size in x.shape[n_batch_axes:])))
        made: Variable = F["linear"](x, self.W, self.b, n_batch_axes=n_batch_axes)
        return made


class _Convolution(Link):
    def _set_up(
        self, rank: int, in_channels: Any, out_channels: Any, ksize: Any, nobias: bool, groups: int
    ) -> None:
        self.out_channels, self.groups = int(out_channels), groups
        self.kernel = pair(ksize, rank)
        with self.init_scope():
            self.W = Parameter(shape=None if in_channels is None else self._sizes(int(in_channels)))
            self.b = None if nobias else Parameter(shape=(self.out_channels,), role="bias")

    def _sizes(self, channels: int) -> tuple[int, ...]:
        return (self.out_channels, channels // self.groups, *self.kernel)

    def _know(self, x: Any) -> None:
        if not self.W.is_initialized:
            self.W.initialize(self._sizes(int(x.shape[1])))


@link
class Convolution2D(_Convolution):
    """Cross-correlation over images; the channels may be left to the first call."""

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
        dilate: Any = 1,
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        self.stride, self.pad, self.dilate = stride, pad, dilate
        self._set_up(2, in_channels, out_channels, ksize, nobias, int(groups))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(x)
        made: Variable = F["convolution_2d"](
            x, self.W, self.b, self.stride, self.pad, dilate=self.dilate, groups=self.groups
        )
        return made


@link
class ConvolutionND(_Convolution):
    """Cross-correlation over any number of axes."""

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
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        self.stride, self.pad, self.dilate, self.cover_all = stride, pad, dilate, cover_all
        self._set_up(ndim, in_channels, out_channels, ksize, nobias, int(groups))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(x)
        made: Variable = F["convolution_nd"](
            x, self.W, self.b, self.stride, self.pad, self.cover_all, self.dilate, self.groups
        )
        return made


@composite
class Convolution1D(ConvolutionND):
    """Cross-correlation over sequences."""

    def __init__(
        self, in_channels: Any, out_channels: Any, ksize: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(1, in_channels, out_channels, ksize, *args, **kwargs)


@composite
class Convolution3D(ConvolutionND):
    """Cross-correlation over volumes."""

    def __init__(
        self, in_channels: Any, out_channels: Any, ksize: Any = None, *args: Any, **kwargs: Any
    ) -> None:
        super().__init__(3, in_channels, out_channels, ksize, *args, **kwargs)


@link
class DilatedConvolution2D(_Convolution):
    """Cross-correlation with gaps."""

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
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        self.stride, self.pad, self.dilate = stride, pad, dilate
        self._set_up(2, in_channels, out_channels, ksize, nobias, 1)

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(x)
        made: Variable = F["dilated_convolution_2d"](x, self.W, self.b, self.stride, self.pad, self.dilate)
        return made


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
        self.stride, self.pad, self.nobias = stride, pad, nobias
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


class _Deconvolution(Link):
    def _set_up(
        self, rank: int, in_channels: Any, out_channels: Any, ksize: Any, nobias: bool, groups: int
    ) -> None:
        self.out_channels, self.groups = int(out_channels), groups
        self.kernel = pair(ksize, rank)
        with self.init_scope():
            self.W = Parameter(shape=None if in_channels is None else self._sizes(int(in_channels)))
            self.b = None if nobias else Parameter(shape=(self.out_channels,), role="bias")

    def _sizes(self, channels: int) -> tuple[int, ...]:
        return (channels, self.out_channels // self.groups, *self.kernel)

    def _apply(self, x: Any, **settings: Any) -> Variable:
        if not self.W.is_initialized:
            self.W.initialize(self._sizes(int(x.shape[1])))
        made: Variable = F["deconvolution_2d"](x, self.W, self.b, groups=self.groups, **settings)
        return made


@link
class Deconvolution2D(_Deconvolution):
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
        dilate: Any = 1,
        groups: int = 1,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        self.stride, self.pad, self.dilate, self.outsize = stride, pad, dilate, outsize
        self._set_up(2, in_channels, out_channels, ksize, nobias, int(groups))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        return self._apply(x, stride=self.stride, pad=self.pad, outsize=self.outsize, dilate=self.dilate)


@link
class DeconvolutionND(_Deconvolution):
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
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        self.stride, self.pad, self.dilate, self.outsize = stride, pad, dilate, outsize
        self._set_up(ndim, in_channels, out_channels, ksize, nobias, int(groups))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        return self._apply(x, stride=self.stride, pad=self.pad, outsize=self.outsize, dilate=self.dilate)


@link
class EmbedID(Link):
    """A table of rows by number."""

    def __init__(
        self,
        in_size: int,
        out_size: int,
        initialW: Any = None,
        ignore_label: int | None = None,
    ) -> None:
        super().__init__()
        self.ignore_label = ignore_label
        with self.init_scope():
            self.W = Parameter(shape=(in_size, out_size))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        made: Variable = F["embed_id"](x, self.W, ignore_label=self.ignore_label)
        return made


@link
class Bias(Link):
    """Plus a stored array along some axes."""

    def __init__(self, axis: int = 1, shape: Any = None) -> None:
        super().__init__()
        self.axis = axis
        with self.init_scope():
            self.b = None if shape is None else Parameter(shape=shape, role="bias")

    def forward(self, *xs: Any) -> Variable:
        """Apply the link."""
        made: Variable = F["bias"](xs[0], self.b if self.b is not None else xs[1], self.axis)
        return made


@composite
class Scale(Chain):
    """Times a stored array along some axes, and plus one."""

    def __init__(
        self,
        axis: int = 1,
        W_shape: Any = None,
        bias_term: bool = False,
        bias_shape: Any = None,
    ) -> None:
        super().__init__()
        self.axis = axis
        with self.init_scope():
            self.W = None if W_shape is None else Parameter(shape=W_shape, role="gamma")
            self.bias = Bias(axis, W_shape or bias_shape) if bias_term else None

    def forward(self, *xs: Any) -> Variable:
        """Scaled, and shifted."""
        made: Variable = F["scale"](xs[0], self.W if self.W is not None else xs[1], self.axis)
        return made if self.bias is None else self.bias(made)


@link
class PReLU(Link):
    """A stored slope below 0."""

    def __init__(self, shape: Any = (), init: Any = 0.25) -> None:
        super().__init__()
        with self.init_scope():
            self.W = Parameter(shape=shape, role="slope")

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        made: Variable = F["prelu"](x, self.W)
        return made


@composite
class MLPConvolution2D(ChainList):
    """A convolution and others of 1 by 1 behind it, with an activation between them."""

    def __init__(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any = None,
        stride: Any = 1,
        pad: Any = 0,
        activation: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        widths = list(out_channels)
        first = Convolution2D(in_channels, widths[0], ksize, stride, pad)
        super().__init__(first, *(Convolution2D(a, b, 1) for a, b in itertools.pairwise(widths)))
        self.activation = activation or F["relu"]

    def forward(self, x: Any) -> Variable:
        """All but the last are followed by the activation."""
        for each in self[:-1]:
            x = self.activation(each(x))
        made: Variable = self[-1](x)
        return made


@composite
class Highway(Chain):
    """What is computed and what comes in, mixed by a gate."""

    def __init__(self, in_out_size: int, nobias: bool = False, activate: Any = None, **kwargs: Any) -> None:
        super().__init__()
        self.activate = activate or F["relu"]
        with self.init_scope():
            self.plain = Linear(in_out_size, in_out_size, nobias=nobias)
            self.transform = Linear(in_out_size, in_out_size, nobias=nobias)

    def forward(self, x: Any) -> Variable:
        """The gate's share of the one, and the rest of the other."""
        plain = self.activate(self.plain(x))
        gate = F["sigmoid"](self.transform(x))
        made: Variable = plain * gate + x * (1 - gate)
        return made


@composite
class Maxout(Chain):
    """The largest of several dense layers, unit by unit."""

    def __init__(self, in_size: Any, out_size: int, pool_size: int, **kwargs: Any) -> None:
        super().__init__()
        self.pool_size, self.out_size = pool_size, out_size
        with self.init_scope():
            self.linear = Linear(in_size, out_size * pool_size)

    def forward(self, x: Any) -> Variable:
        """The maxima."""
        made: Variable = F["maxout"](self.linear(x), self.pool_size)
        return made
