"""Layers in the manner of Keras: each makes symbols of symbols, with Keras's names and defaults.

Images are (channels, height, width), as everywhere in Netweave, and not channels last.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.symbol.initializer import Initializer
from netweave.symbol.metrics import call
from netweave.symbol.naming import fresh_name
from netweave.symbol.symbol import variable

if TYPE_CHECKING:
    from netweave.symbol.symbol import Symbol

Pair = int | tuple[int, int]

GLOROT_UNIFORM = Initializer("xavier", rnd_type="uniform", factor_type="avg", magnitude=3)
"""Keras's first values of kernels."""

ACTIVATIONS = ("relu", "sigmoid", "tanh", "softplus", "softsign", "softmax", "elu", "selu", "gelu", "linear")


@dataclass(frozen=True, kw_only=True)
class Layer(ABC):
    """One layer.

    Attributes:
        input_shape: Sizes of one record, of the first layer of a net.
        name: Its name; None for a fresh one.
    """

    input_shape: tuple[int, ...] | None = None
    name: str | None = None

    @abstractmethod
    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""


def activated(x: Symbol, kind: str | None, name: str | None = None) -> Symbol:
    """Return a symbol after an activation.

    Raises:
        UsageError: There is no such activation.
    """
    if kind in {None, "linear"}:
        return x
    if kind not in ACTIVATIONS:
        raise UsageError(f"unknown activation {kind!r}; expected one of {', '.join(ACTIVATIONS)}")
    if kind == "softmax":
        return call("softmax", x, axis=-1, name=name)
    if kind in {"elu", "selu", "gelu"}:
        return call("LeakyReLU", x, act_type=kind, slope=1.0, name=name)
    return call("Activation", x, act_type={"softplus": "softrelu"}.get(str(kind), kind), name=name)


@dataclass(frozen=True)
class Dense(Layer):
    """``activation(x W^T + b)`` over the last axis."""

    units: int
    activation: str | None = None
    use_bias: bool = True
    kernel_initializer: Initializer = GLOROT_UNIFORM

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        weighted = _weighted("FullyConnected", "dense", self, x, num_hidden=self.units, flatten=False)
        return activated(weighted, self.activation)


@dataclass(frozen=True)
class Conv2D(Layer):
    """A convolution of images; ``padding`` is ``valid`` or ``same``."""

    filters: int
    kernel_size: Pair
    strides: Pair = 1
    padding: str = "valid"
    activation: str | None = None
    use_bias: bool = True
    kernel_initializer: Initializer = GLOROT_UNIFORM

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        kernel, stride = pair(self.kernel_size), pair(self.strides)
        settings = {"kernel": kernel, "stride": stride, "num_filter": self.filters}
        padded, pads = pad(x, self.padding, kernel, stride)
        weighted = _weighted("Convolution", "conv2d", self, padded, pad=pads, **settings)
        return activated(weighted, self.activation)


@dataclass(frozen=True)
class MaxPooling2D(Layer):
    """The largest of each window; strides are the window's size by default."""

    pool_size: Pair = 2
    strides: Pair | None = None
    padding: str = "valid"

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        kernel = pair(self.pool_size)
        stride = kernel if self.strides is None else pair(self.strides)
        return self._pool(x, kernel, stride)

    def _pool(self, x: Symbol, kernel: tuple[int, int], stride: tuple[int, int]) -> Symbol:
        padded, pads = pad(x, self.padding, kernel, stride, value=-math.inf)
        settings = {"kernel": kernel, "stride": stride, "pad": pads}
        return call("Pooling", padded, **settings, pool_type="max", name=self.name)


@dataclass(frozen=True)
class AveragePooling2D(MaxPooling2D):
    """The mean of each window, padding left out."""

    def _pool(self, x: Symbol, kernel: tuple[int, int], stride: tuple[int, int]) -> Symbol:
        settings = {"kernel": kernel, "stride": stride, "pool_type": "avg", "count_include_pad": False}
        padded, pads = pad(x, self.padding, kernel, stride)
        if padded is x:
            return call("Pooling", x, **settings, pad=pads, name=self.name)
        # Uneven padding is data to a pooling: means of ones say which share of a window is not padding.
        inside, _ = pad(call("ones_like", x), self.padding, kernel, stride)
        means, shares = call("Pooling", padded, **settings), call("Pooling", inside, **settings)
        return call("broadcast_div", means, shares, name=self.name)


@dataclass(frozen=True)
class GlobalAveragePooling2D(Layer):
    """The mean of each channel."""

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return call("mean", x, axis=(2, 3), name=self.name)


@dataclass(frozen=True)
class Flatten(Layer):
    """All axes but the first as one."""

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return call("Flatten", x, name=self.name)


@dataclass(frozen=True)
class Reshape(Layer):
    """Other sizes of a record."""

    target_shape: tuple[int, ...]

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return call("Reshape", x, shape=(0, *self.target_shape), name=self.name)


@dataclass(frozen=True)
class Activation(Layer):
    """One of ``ACTIVATIONS``."""

    activation: str

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return activated(x, self.activation, self.name)


@dataclass(frozen=True)
class Dropout(Layer):
    """A share of elements set to 0 in training, the others made larger by as much."""

    rate: float

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return call("Dropout", x, p=self.rate, name=self.name)


@dataclass(frozen=True)
class BatchNormalization(Layer):
    """Each channel with the mean and the variance of the batch, or those stored."""

    momentum: float = 0.99
    epsilon: float = 1e-3

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        return call("BatchNorm", x, fix_gamma=False, momentum=self.momentum, eps=self.epsilon, name=self.name)


@dataclass(frozen=True)
class Embedding(Layer):
    """A row of a learnt table for each whole number."""

    input_dim: int
    output_dim: int

    def __call__(self, x: Symbol) -> Symbol:
        """Return what the layer makes of a symbol."""
        name = fresh_name(self.name, "embedding")
        table = variable(f"{name}_weight", init=Initializer("uniform", scale=0.05))
        sizes = {"input_dim": self.input_dim, "output_dim": self.output_dim}
        return call("Embedding", x, table, **sizes, name=name)


def pair(sizes: Pair) -> tuple[int, int]:
    """Return two sizes, of one or two."""
    return (sizes, sizes) if isinstance(sizes, int) else (sizes[0], sizes[1])


def pad(
    x: Symbol, kind: str, kernel: tuple[int, int], strides: tuple[int, int], *, value: float = 0.0
) -> tuple[Symbol, tuple[int, int]]:
    """Return a symbol, padded where its windows cannot pad it themselves, and how much they pad on each side.

    Raises:
        UsageError: The kind is unknown.
    """
    if kind == "valid":
        return x, (0, 0)
    if kind != "same":
        raise UsageError(f"padding is {kind!r}, expected valid or same")
    if strides == (1, 1) and all(size % 2 for size in kernel):
        return x, (kernel[0] // 2, kernel[1] // 2)
    return call("_netweave_pad_same", x, kernel=kernel, stride=strides, constant_value=value), (0, 0)


def _weighted(op: str, hint: str, layer: Any, x: Symbol, **settings: Any) -> Symbol:
    """Return an operator with a weight that is drawn as the layer says."""
    name = fresh_name(layer.name, hint)
    weight = variable(f"{name}_weight", init=layer.kernel_initializer)
    return call(op, x, weight, no_bias=not layer.use_bias, name=name, **settings)
