"""Blocks of the zoo's nets: convolutions with their usual followers, pooling, classifiers."""

from __future__ import annotations

from netweave.formats.mxnet.symbol.symbol import Symbol, operator_function

_activation = operator_function("Activation")
_batch_norm = operator_function("BatchNorm")
_clip = operator_function("clip")
_convolution = operator_function("Convolution")
_dropout = operator_function("Dropout")
_flatten = operator_function("Flatten")
_fully_connected = operator_function("FullyConnected")
_lrn = operator_function("LRN")
_pooling = operator_function("Pooling")
_softmax_output = operator_function("SoftmaxOutput")

add = operator_function("elemwise_add")
concat = operator_function("Concat")

Size = int | tuple[int, int]


def convolution(
    x: Symbol,
    name: str,
    width: int,
    kernel: Size,
    *,
    stride: int = 1,
    pad: Size = 0,
    groups: int = 1,
    bias: bool = True,
) -> Symbol:
    """Return a convolution alone."""
    return _convolution(
        x,
        num_filter=width,
        kernel=_pair(kernel),
        stride=_pair(stride),
        pad=_pair(pad),
        num_group=groups,
        no_bias=not bias,
        name=name,
    )


def rectified(
    x: Symbol, name: str, width: int, kernel: Size, *, stride: int = 1, pad: Size = 0, groups: int = 1
) -> Symbol:
    """Return a convolution with a bias, behind it a rectifier."""
    x = convolution(x, name, width, kernel, stride=stride, pad=pad, groups=groups)
    return relu(x, f"{name}_relu")


def normalised(
    x: Symbol,
    name: str,
    width: int,
    kernel: Size,
    *,
    stride: int = 1,
    pad: Size = 0,
    groups: int = 1,
    bias: bool = False,
    epsilon: float = 1e-5,
    limit: float | None = None,
    rectify: bool = True,
) -> Symbol:
    """Return a convolution, a BatchNorm and mostly a rectifier, which may have an upper limit."""
    x = convolution(x, name, width, kernel, stride=stride, pad=pad, groups=groups, bias=bias)
    x = normalise(x, f"{name}_bn", epsilon=epsilon)
    if not rectify:
        return x
    return (
        relu(x, f"{name}_relu") if limit is None else _clip(x, a_min=0.0, a_max=limit, name=f"{name}_relu6")
    )


def normalise(x: Symbol, name: str, *, epsilon: float = 1e-5) -> Symbol:
    """Return a BatchNorm."""
    return _batch_norm(x, eps=epsilon, fix_gamma=False, name=name)


def relu(x: Symbol, name: str) -> Symbol:
    """Return a rectifier."""
    return _activation(x, act_type="relu", name=name)


def lrn(x: Symbol, name: str) -> Symbol:
    """Return the local response normalisation of AlexNet."""
    return _lrn(x, nsize=5, alpha=1e-4, beta=0.75, knorm=1.0, name=name)


def max_pool(
    x: Symbol, name: str, kernel: int = 3, stride: int = 2, pad: int = 0, *, up: bool = False
) -> Symbol:
    """Return a maximum over windows; ``up`` rounds their number up, as Caffe does."""
    return _pool(x, name, "max", kernel, stride, pad, up=up)


def average_pool(x: Symbol, name: str, kernel: int = 3, stride: int = 1, pad: int = 1) -> Symbol:
    """Return a mean over windows."""
    return _pool(x, name, "avg", kernel, stride, pad, up=False)


def _pool(x: Symbol, name: str, kind: str, kernel: int, stride: int, pad: int, *, up: bool) -> Symbol:
    return _pooling(
        x,
        pool_type=kind,
        kernel=_pair(kernel),
        stride=_pair(stride),
        pad=_pair(pad),
        pooling_convention="full" if up else "valid",
        name=name,
    )


def global_average(x: Symbol, name: str = "pool") -> Symbol:
    """Return the mean of each channel, flat."""
    x = _pooling(x, pool_type="avg", kernel=(1, 1), global_pool=True, name=name)
    return flatten(x, f"{name}_flat")


def flatten(x: Symbol, name: str = "flatten") -> Symbol:
    """Return all but the batch in one axis."""
    return _flatten(x, name=name)


def dropout(x: Symbol, name: str, rate: float = 0.5) -> Symbol:
    """Return a dropout."""
    return _dropout(x, p=rate, name=name)


def dense(x: Symbol, name: str, width: int, *, rectify: bool = True) -> Symbol:
    """Return a dense layer, mostly behind it a rectifier."""
    x = _fully_connected(x, num_hidden=width, name=name)
    return relu(x, f"{name}_relu") if rectify else x


def classes(x: Symbol) -> Symbol:
    """Return the probabilities of the classes, with MXNet's loss."""
    return _softmax_output(x, name="softmax")


def _pair(size: Size) -> tuple[int, int]:
    return size if isinstance(size, tuple) else (size, size)
