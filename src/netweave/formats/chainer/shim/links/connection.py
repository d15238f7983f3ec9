"""Links with weights that have no window (``chainer.links.connection``)."""

from __future__ import annotations

import itertools
from math import prod
from typing import Any

from netweave.formats.chainer.shim.arguments import ArgumentsError
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.link import Chain, ChainList, Link
from netweave.formats.chainer.shim.links.convolution import Convolution2D
from netweave.formats.chainer.shim.links.table import Signed, composite, link, takes
from netweave.formats.chainer.shim.variable import Parameter, Variable


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
