"""Links of Chainer that convolve, multiply or normalise."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

import numpy as np

from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.table import pair
from netweave.formats.chainer.shim.functions.windows import kept_axes
from netweave.formats.chainer.shim.link import ArgumentsError, Chain, ChainList, Link
from netweave.formats.chainer.shim.links.table import Signed, composite, link, takes
from netweave.formats.chainer.shim.recorder import Parameter, Variable, current

# Chainer lets the first argument, the input's channels, be left out: the others move up by one, and the
# first call tells.


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


@link
@takes("in_size, out_size=None, nobias=False, initialW=None, initial_bias=None")
class Linear(Signed, Link):
    """``x W^T + b``; the number of inputs may be left to the first call."""

    def _build(self, in_size: Any, out_size: Any, nobias: bool) -> None:
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
        return F["linear"](x, self.W, self.b, n_batch_axes=n_batch_axes)


@link
@takes("in_size, out_size, initialW=None, ignore_label=None")
class EmbedID(Signed, Link):
    """A table of rows by number."""

    def _build(self, in_size: int, out_size: int, ignore_label: int | None) -> None:
        self.ignore_label = ignore_label
        with self.init_scope():
            self.W = Parameter(shape=(in_size, out_size))

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        return F["embed_id"](x, self.W, ignore_label=self.ignore_label)


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
        return F["bias"](xs[0], self.b if self.b is not None else xs[1], self.axis)


@composite
@takes("axis=1, W_shape=None, bias_term=False, bias_shape=None")
class Scale(Signed, Chain):
    """Times a stored array along some axes, and plus one."""

    def _build(self, axis: int, W_shape: Any, bias_term: bool, bias_shape: Any) -> None:
        self.axis = axis
        with self.init_scope():
            self.W = None if W_shape is None else Parameter(shape=W_shape, role="gamma")
            self.bias = Bias(axis, W_shape or bias_shape) if bias_term else None

    def forward(self, *xs: Any) -> Variable:
        """Scaled, and shifted."""
        scaled: Variable = F["scale"](xs[0], self.W if self.W is not None else xs[1], self.axis)
        return scaled if self.bias is None else self.bias(scaled)


@link
class PReLU(Link):
    """A stored slope below 0."""

    def __init__(self, shape: Any = (), init: Any = 0.25) -> None:
        super().__init__()
        with self.init_scope():
            self.W = Parameter(shape=shape, role="slope")

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        return F["prelu"](x, self.W)


@composite
@takes(
    "in_channels, out_channels, ksize=None, stride=1, pad=0, activation=relu, *args, "
    "conv_init=None, bias_init=None"
)
class MLPConvolution2D(Signed, ChainList):
    """A convolution and others of 1 by 1 behind it, with an activation between them."""

    def _build(
        self,
        in_channels: Any,
        out_channels: Any,
        ksize: Any,
        stride: Any,
        pad: Any,
        activation: Any,
        args: Any,
    ) -> None:
        if args:
            raise ArgumentsError("MLPConvolution2D() no longer accepts wscale; use conv_init and bias_init")
        if ksize is None:
            out_channels, ksize, in_channels = in_channels, out_channels, None
        widths = list(out_channels)
        self.append(Convolution2D(in_channels, widths[0], ksize, stride, pad))
        for narrow, wide in itertools.pairwise(widths):
            self.append(Convolution2D(narrow, wide, 1))
        self.activation = activation

    def forward(self, x: Any) -> Variable:
        """All but the last are followed by the activation."""
        for each in self[:-1]:
            x = self.activation(each(x))
        return self[-1](x)


@composite
@takes("in_out_size, nobias=False, activate=relu, init_Wh=None, init_Wt=None, init_bh=None, init_bt=-1")
class Highway(Signed, Chain):
    """A highway layer: its input and its transformed input, mixed by a gate."""

    def _build(self, in_out_size: int, nobias: bool, activate: Any) -> None:
        self.activate = activate
        with self.init_scope():
            self.plain = Linear(in_out_size, in_out_size, nobias=nobias)
            self.transform = Linear(in_out_size, in_out_size, nobias=nobias)

    def forward(self, x: Any) -> Variable:
        """The gate's share of the one, and the rest of the other."""
        plain = self.activate(self.plain(x))
        gate = F["sigmoid"](self.transform(x))
        return plain * gate + x * (1 - gate)


@composite
@takes("in_size, out_size, pool_size, initialW=None, initial_bias=0")
class Maxout(Signed, Chain):
    """The largest of several dense layers, unit by unit."""

    def _build(self, in_size: Any, out_size: int, pool_size: int) -> None:
        self.pool_size, self.out_size = pool_size, out_size
        with self.init_scope():
            self.linear = Linear(in_size, out_size * pool_size)

    def forward(self, x: Any) -> Variable:
        """The maxima."""
        return F["maxout"](self.linear(x), self.pool_size)


@link
@takes(
    "size=None, decay=0.9, eps=2e-5, dtype=None, use_gamma=True, use_beta=True, initial_gamma=None, "
    "initial_beta=None, axis=None, initial_avg_mean=None, initial_avg_var=None"
)
class BatchNormalization(Signed, Link):
    """By stored statistics; scale and shift may be left out, the size be left to the first call."""

    def _build(
        self, size: Any, decay: float, eps: float, dtype: Any, use_gamma: bool, use_beta: bool, axis: Any
    ) -> None:
        self.eps, self.decay, self.axis = eps, decay, axis
        with self.init_scope():
            self.gamma = Parameter(role="gamma") if use_gamma else None
            self.beta = Parameter(role="beta") if use_beta else None
        self.add_persistent("avg_mean", Parameter(name="avg_mean", role="mean", is_trainable=False))
        self.add_persistent("avg_var", Parameter(name="avg_var", role="variance", is_trainable=False))
        self.add_persistent("N", 0)
        if size is not None:
            self._know(tuple(map(int, size)) if isinstance(size, tuple | list) else (int(size),))

    def _know(self, sizes: tuple[int, ...]) -> None:
        for each in (self.gamma, self.beta, *(self._persistent[name] for name in ("avg_mean", "avg_var"))):
            if each is not None:
                each.initialize(sizes)
        self.sizes = sizes

    def forward(self, x: Any, *, finetune: bool = False) -> Variable:
        """Apply the link."""
        mean, variance = self._persistent["avg_mean"], self._persistent["avg_var"]
        if not mean.is_initialized:
            self._know(tuple(int(x.shape[axis]) for axis in kept_axes(x.ndim, self.axis)))
        record = current()
        gamma = self.gamma if self.gamma is not None else record.constant(np.ones(self.sizes))
        beta = self.beta if self.beta is not None else record.constant(np.zeros(self.sizes))
        return F["fixed_batch_normalization"](x, gamma, beta, mean, variance, self.eps, self.axis)


class _ScaleAndShift(Signed, Link):
    def _build(self, size: Any, eps: float) -> None:
        self.eps = eps
        with self.init_scope():
            self.gamma = Parameter(shape=size, role="gamma")
            self.beta = Parameter(shape=size, role="beta")

    def _know(self, size: int) -> None:
        for each in (self.gamma, self.beta):
            if not each.is_initialized:
                each.initialize(size)


@link
@takes("size=None, eps=1e-6, initial_gamma=None, initial_beta=None")
class LayerNormalization(_ScaleAndShift):
    """By the statistics of each row; epsilon is 1e-6."""

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(int(x.shape[1]))
        return F["layer_normalization"](x, self.gamma, self.beta, self.eps)


@link
@takes("groups, size=None, eps=1e-5, initial_gamma=None, initial_beta=None")
class GroupNormalization(_ScaleAndShift):
    """By the statistics of groups of channels."""

    def _build(self, size: Any, eps: float, groups: int = 1) -> None:
        super()._build(size, eps)
        self.groups = groups

    def forward(self, x: Any) -> Variable:
        """Apply the link."""
        self._know(int(x.shape[1]))
        return F["group_normalization"](x, self.groups, self.gamma, self.beta, self.eps)


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
