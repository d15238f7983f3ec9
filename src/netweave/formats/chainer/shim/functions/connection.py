"""``chainer.functions.connection`` and ``rnn``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, pair
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.lowering.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.chainer.shim.variable import Variable


def _window(ksize: Sequence[int], stride: Any, pad: Any, dilate: Any, groups: int) -> dict[str, Any]:
    """Return the attributes of a convolution or of its transpose."""
    rank = len(ksize)
    window = Window(
        [int(size) for size in ksize], pair(stride, rank), pair(pad, rank), (), pair(dilate, rank)
    )
    return window.attributes() | {"group": int(groups)}


def _convolution(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    cover_all: bool = False,
    dilate: Any = 1,
    groups: int = 1,
) -> Variable:
    """Cross-correlation with weights (out, in / groups, height, width), over any number of axes."""
    if cover_all:
        raise CodeError("a convolution with cover_all is not supported")
    attributes = _window(W.shape[2:], stride, pad, dilate, groups)
    return node("Conv", [x, W, *([] if b is None else [b])], attributes)


function(
    "convolution_2d",
    takes="x, W, b=None, stride=1, pad=0, cover_all=False, *, dilate=1, groups=1, cudnn_fast=False",
)(_convolution)
function(
    "convolution_nd",
    "convolution_1d",
    "convolution_3d",
    takes="x, W, b=None, stride=1, pad=0, cover_all=False, dilate=1, groups=1",
)(_convolution)
function("dilated_convolution_2d", takes="x, W, b=None, stride=1, pad=0, dilate=1, cover_all=False")(
    _convolution
)


@function()
def depthwise_convolution_2d(x: Any, W: Any, b: Any = None, stride: Any = 1, pad: Any = 0) -> Variable:
    """Every channel by itself, weights (multiplier, channels, height, width)."""
    multiplier, channels, *kernel = W.shape
    by_channel = node("Transpose", [W], {"perm": [1, 0, 2, 3]})
    filters = node("Reshape", [by_channel, integers([channels * multiplier, 1, *kernel])])
    return _convolution(x, filters, b, stride, pad, groups=channels)


def _deconvolution(
    x: Any,
    W: Any,
    b: Any = None,
    stride: Any = 1,
    pad: Any = 0,
    outsize: Any = None,
    dilate: Any = 1,
    groups: int = 1,
) -> Variable:
    """The transpose of a convolution, weights (in, out / groups, ...); ``outsize`` is reached at the end."""
    attributes = _window(W.shape[2:], stride, pad, dilate, groups)
    if outsize is not None:
        steps = zip(x.shape[2:], attributes["strides"], W.shape[2:], attributes["dilations"], strict=True)
        reached = [step * (size - 1) + gap * (taps - 1) + 1 for size, step, taps, gap in steps]
        sizes = [size - 2 * edge for size, edge in zip(reached, pair(pad, len(reached)), strict=True)]
        extra = [int(wanted) - size for wanted, size in zip(outsize, sizes, strict=True)]
        if min(extra) < 0:
            raise CodeError(
                f"a deconvolution to {tuple(outsize)}, smaller than {tuple(sizes)}, is not supported"
            )
        attributes["output_padding"] = extra
    return node("ConvTranspose", [x, W, *([] if b is None else [b])], attributes)


function("deconvolution_2d", takes="x, W, b=None, stride=1, pad=0, outsize=None, *, dilate=1, groups=1")(
    _deconvolution
)
function(
    "deconvolution_nd",
    "deconvolution_1d",
    "deconvolution_3d",
    takes="x, W, b=None, stride=1, pad=0, outsize=None, dilate=1, groups=1",
)(_deconvolution)


@function()
def linear(x: Any, W: Any, b: Any = None, n_batch_axes: int = 1) -> Variable:
    """``x W^T + b`` over all axes after the batch's."""
    if n_batch_axes > 1:
        if x.ndim != n_batch_axes + 1:
            raise CodeError("linear() with n_batch_axes and an input of more axes is not supported")
        product = node("MatMul", [x, node("Transpose", [W], {"perm": [1, 0]})])
        return product if b is None else node("Add", [product, b])
    rows = x if x.ndim == 2 else node("Flatten", [x], {"axis": 1})
    return node("Gemm", [rows, W, *([] if b is None else [b])], {"transB": 1})


@function()
def embed_id(x: Any, W: Any, ignore_label: int | None = None) -> Variable:
    """Rows of a table; an ignored label gives zeros."""
    record = current()
    record.need_whole(x)
    if ignore_label is None:
        return node("Gather", [W, x], {"axis": 0})
    is_ignored = node("Equal", [x, record.scalar(ignore_label, x)])
    rows = node("Gather", [W, node("Where", [is_ignored, record.scalar(0, x), x])], {"axis": 0})
    mask = node("Unsqueeze", [is_ignored, integers([-1])])
    return node("Where", [mask, record.constant(0.0), rows])


@function()
def lstm(c_prev: Any, x: Any) -> tuple[Variable, Variable]:
    """One step; the gates a, i, f, o lie interleaved, unit by unit."""
    units = node("Reshape", [x, integers([0, int(x.shape[1]) // 4, 4])])
    parts = current().add_many("Split", [units, integers([1, 1, 1, 1])], {"axis": 2}, outputs=4)
    axes = integers([2])
    a, i, f, o = (node("Squeeze", [part, axes]) for part in parts)
    taken = node("Mul", [node("Tanh", [a]), node("Sigmoid", [i])])
    kept = node("Mul", [node("Sigmoid", [f]), c_prev])
    c = node("Add", [taken, kept])
    return c, node("Mul", [node("Sigmoid", [o]), node("Tanh", [c])])


def zeros_like_state(x: Any, size: int) -> Variable:
    """Return a state of zeros of shape (batch, size) for an input of shape (batch, ...)."""
    batch = node("Shape", [x], {"start": 0, "end": 1})
    shape = node("Concat", [batch, integers([size])], {"axis": 0})
    return node("Expand", [current().constant(np.zeros((1, 1), np.float32)), shape])
