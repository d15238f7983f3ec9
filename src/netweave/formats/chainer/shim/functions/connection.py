"""``chainer.functions.connection`` and ``rnn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, pair, wrap
from netweave.formats.chainer.shim.recorder import current

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


def _bias(b: Any) -> list[Any]:
    return [] if b is None else [b]


def _convolution(
    x: Any,
    W: Any,
    b: Any,
    stride: Any,
    pad: Any,
    cover_all: bool,
    dilate: Any,
    groups: int,
) -> Variable:
    if cover_all:
        raise CodeError("a convolution with cover_all is not recorded")
    rank = W.ndim - 2
    padding = pair(pad, rank)
    attributes = {
        "kernel_shape": [int(size) for size in W.shape[2:]],
        "strides": pair(stride, rank),
        "pads": padding + padding,
        "dilations": pair(dilate, rank),
        "group": int(groups),
    }
    return wrap(current().add("Conv", [x, W, *_bias(b)], attributes))


@function()
def convolution_2d(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    cover_all: bool = False,
    *,
    dilate: Any = 1,
    groups: int = 1,
    cudnn_fast: bool = False,
) -> Variable:
    """Cross-correlation with weights (out, in / groups, height, width)."""
    return _convolution(x, W, b, stride, pad, cover_all, dilate, groups)


@function("convolution_nd", "convolution_1d", "convolution_3d")
def convolution_nd(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    cover_all: bool = False,
    dilate: Any = 1,
    groups: int = 1,
) -> Variable:
    """Cross-correlation over any number of axes."""
    return _convolution(x, W, b, stride, pad, cover_all, dilate, groups)


@function()
def dilated_convolution_2d(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    dilate: Any = 1,
    cover_all: bool = False,
) -> Variable:
    """Cross-correlation with gaps."""
    return _convolution(x, W, b, stride, pad, cover_all, dilate, 1)


@function()
def depthwise_convolution_2d(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
) -> Variable:
    """Every channel by itself, weights (multiplier, channels, height, width)."""
    record = current()
    multiplier, channels, *kernel = W.shape
    turned = record.add("Transpose", [W], {"perm": [1, 0, 2, 3]})
    shape = record.constant([channels * multiplier, 1, *kernel], dtype="int64")
    filters = wrap(record.add("Reshape", [turned, shape]))
    return _convolution(x, filters, b, stride, pad, False, 1, channels)


@function()
def deconvolution_2d(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    outsize: Any = None,
    *,
    dilate: Any = 1,
    groups: int = 1,
) -> Variable:
    """The transpose of a convolution, weights (in, out / groups, ...); ``outsize`` is reached at the end."""
    return _deconvolution(x, W, b, stride, pad, outsize, dilate, groups)


@function("deconvolution_nd", "deconvolution_1d", "deconvolution_3d")
def deconvolution_nd(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    outsize: Any = None,
    dilate: Any = 1,
    groups: int = 1,
) -> Variable:
    """The transpose of a convolution over any number of axes; ``outsize`` is reached at the end."""
    return _deconvolution(x, W, b, stride, pad, outsize, dilate, groups)


def _deconvolution(
    x: Any, W: Any, b: Any, stride: Any, pad: Any, outsize: Any, dilate: Any, groups: int
) -> Variable:
    rank = W.ndim - 2
    strides, padding, dilations = pair(stride, rank), pair(pad, rank), pair(dilate, rank)
    attributes: dict[str, Any] = {
        "kernel_shape": [int(size) for size in W.shape[2:]],
        "strides": strides,
        "pads": padding + padding,
        "dilations": dilations,
        "group": int(groups),
    }
    if outsize is not None:
        plain = [
            step * (size - 1) + dilation * (taps - 1) + 1 - 2 * edge
            for size, step, taps, dilation, edge in zip(
                x.shape[2:], strides, W.shape[2:], dilations, padding, strict=True
            )
        ]
        extra = [int(wanted) - size for wanted, size in zip(outsize, plain, strict=True)]
        if min(extra) < 0:
            raise CodeError(
                f"a deconvolution to {tuple(outsize)}, smaller than {tuple(plain)}, is not recorded"
            )
        attributes["output_padding"] = extra
    return wrap(current().add("ConvTranspose", [x, W, *_bias(b)], attributes))


@function()
def linear(x: Any, W: Any, b: Any = None, n_batch_axes: int = 1) -> Variable:
    """``x W^T + b`` over all axes after the batch's."""
    record = current()
    if n_batch_axes > 1:
        if x.ndim != n_batch_axes + 1:
            raise CodeError("a linear function that flattens behind several axes of a batch is not recorded")
        product = record.add("MatMul", [x, record.add("Transpose", [W], {"perm": [1, 0]})])
        return wrap(product if b is None else record.add("Add", [product, b]))
    rows = x if x.ndim == 2 else record.add("Flatten", [x], {"axis": 1})
    return wrap(record.add("Gemm", [rows, W, *_bias(b)], {"transB": 1}))


@function()
def embed_id(x: Any, W: Any, ignore_label: int | None = None) -> Variable:
    """Rows of a table; an ignored label gives zeros."""
    record = current()
    record.need_whole(x)
    if ignore_label is None:
        return wrap(record.add("Gather", [W, x], {"axis": 0}))
    label = record.constant(ignore_label, dtype=x.dtype)
    is_ignored = record.add("Equal", [x, label])
    safe = record.add("Where", [is_ignored, record.constant(0, dtype=x.dtype), x])
    rows = record.add("Gather", [W, safe], {"axis": 0})
    mask = record.add("Unsqueeze", [is_ignored, record.constant([-1], dtype="int64")])
    return wrap(record.add("Where", [mask, record.constant(0.0), rows]))


@function()
def lstm(c_prev: Any, x: Any) -> tuple[Variable, Variable]:
    """One step; the gates a, i, f, o lie interleaved, unit by unit."""
    record = current()
    units = int(x.shape[1]) // 4
    cut = record.add("Reshape", [x, record.constant([0, units, 4], dtype="int64")])
    parts = record.add_many(
        "Split", [cut, record.constant([1, 1, 1, 1], dtype="int64")], {"axis": 2}, num_outputs=4
    )
    axes = record.constant([2], dtype="int64")
    a, i, f, o = (record.add("Squeeze", [part, axes]) for part in parts)
    taken = record.add("Mul", [record.add("Tanh", [a]), record.add("Sigmoid", [i])])
    kept = record.add("Mul", [record.add("Sigmoid", [f]), c_prev])
    c = record.add("Add", [taken, kept])
    h = record.add("Mul", [record.add("Sigmoid", [o]), record.add("Tanh", [c])])
    return wrap(c), wrap(h)


def zeros_like_state(x: Any, size: int) -> Variable:
    """Return a state of zeros of shape (batch, size) for an input of shape (batch, ...)."""
    record = current()
    batch = record.add("Shape", [x], {"start": 0, "end": 1})
    shape = record.add("Concat", [batch, record.constant([size], dtype="int64")], {"axis": 0})
    return wrap(record.add("Expand", [record.constant(np.zeros((1, 1), np.float32)), shape]))
