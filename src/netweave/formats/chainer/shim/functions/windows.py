"""Functions of Chainer that convolve, pool or normalise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, pair
from netweave.formats.chainer.shim.recorder import Variable, current
from netweave.formats.lowering.windows import REPEATED, Window
from netweave.graph.ops.pooling import pooling


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


def _pool(
    x: Any, ksize: Any, stride: Any, pad: Any, *, average: bool, rounding: str, include: bool
) -> Variable:
    rank = x.ndim - 2
    kernel = pair(ksize, rank)
    padding = pair(pad, rank)
    domain, op_type, attributes = pooling(
        average,
        kernel=kernel,
        strides=kernel if stride is None else pair(stride, rank),
        pads=padding + padding,
        rounding=rounding,
        count_include_pad=include,
    )
    return node(op_type, [x], attributes, domain=domain)


@function(
    *("max_pooling_2d", "max_pooling_nd", "max_pooling_1d", "max_pooling_3d"),
    takes="x, ksize, stride=None, pad=0, cover_all=True, return_indices=False",
)
def max_pooling(x: Any, ksize: Any, stride: Any, pad: Any, cover_all: bool, return_indices: bool) -> Any:
    """The largest of each window; by default the last window may lie in the padding (``cover_all``)."""
    if return_indices:
        return _with_places(x, ksize, stride, pad, cover_all=cover_all)
    rounding = "full" if cover_all else "floor"
    return _pool(x, ksize, stride, pad, average=False, rounding=rounding, include=False)


def _average(x: Any, ksize: Any, stride: Any = None, pad: Any = 0, pad_value: Any = 0) -> Variable:
    """The mean of each window, padding included unless ``pad_value`` is None; windows are rounded down."""
    return _pool(x, ksize, stride, pad, average=True, rounding="floor", include=pad_value is not None)


function("average_pooling_2d", takes="x, ksize, stride=None, pad=0")(_average)
function(
    "average_pooling_nd",
    "average_pooling_1d",
    "average_pooling_3d",
    takes="x, ksize, stride=None, pad=0, pad_value=0",
)(_average)


def _blocks(ksize: Any, stride: Any, pad: Any, what: str) -> list[int]:
    """Return the size of windows that are blocks: they neither overlap, nor leave gaps, nor are padded."""
    kernel = pair(ksize)
    if kernel != (kernel if stride is None else pair(stride)) or pair(pad) != [0, 0]:
        raise CodeError(f"{what} that overlap, or padding, is not supported")
    return kernel


def _with_places(x: Any, ksize: Any, stride: Any, pad: Any, *, cover_all: bool) -> tuple[Variable, Variable]:
    """Return the largest of each window and its place in the window, row by row."""
    kernel = _blocks(ksize, stride, pad, "max pooling with return_indices and windows")
    counts = [int(size) // k for size, k in zip(x.shape[2:], kernel, strict=True)]
    over = [int(size) % k for size, k in zip(x.shape[2:], kernel, strict=True)]
    if cover_all:
        ends = [(k - rest) % k for k, rest in zip(kernel, over, strict=True)]
        lowest = current().constant(np.finfo(np.float32).min)
        full = node("Pad", [x, integers([0, 0, 0, 0, 0, 0, *ends]), lowest])
        counts = [count + bool(rest) for count, rest in zip(counts, over, strict=True)]
    else:
        stops = [count * k for count, k in zip(counts, kernel, strict=True)]
        full = node("Slice", [x, *map(integers, ([0, 0], stops, [2, 3]))])
    split = [0, int(x.shape[1]), counts[0], kernel[0], counts[1], kernel[1]]
    blocks = node("Transpose", [node("Reshape", [full, integers(split)])], {"perm": [0, 1, 2, 4, 3, 5]})
    windows = node("Reshape", [blocks, integers([0, 0, 0, 0, kernel[0] * kernel[1]])])
    largest = node("ReduceMax", [windows, integers([4])], {"keepdims": 0})
    return largest, node("ArgMax", [windows], {"axis": 4, "keepdims": 0})


@function(takes="x, indexes, ksize, stride=None, pad=0, outsize=None, cover_all=True")
def upsampling_2d(
    x: Any, indexes: Any, ksize: Any, stride: Any, pad: Any, outsize: Any, cover_all: bool
) -> Variable:
    """Every element at its place in a block of zeros, where blocks neither overlap nor leave gaps."""
    kernel = _blocks(ksize, stride, pad, "upsampling with blocks")
    own = [int(size) for size in x.shape[2:]]
    full = [size * k for size, k in zip(own, kernel, strict=True)]
    least = [(size - 1) * k + 1 for size, k in zip(own, kernel, strict=True)]
    if outsize is None:
        outsize = least if cover_all else full
    if any(not low <= size <= high for low, size, high in zip(least, outsize, full, strict=True)):
        raise CodeError(f"upsampling of {tuple(own)} to {tuple(outsize)} is not supported")
    last = integers([-1])
    is_there = node("Equal", [node("Unsqueeze", [indexes, last]), integers(range(kernel[0] * kernel[1]))])
    spread = node("Where", [is_there, node("Unsqueeze", [x, last]), current().constant(0.0)])
    split = node("Reshape", [spread, integers([0, 0, 0, 0, *kernel])])
    blocks = node("Transpose", [split], {"perm": [0, 1, 2, 4, 3, 5]})
    joined = node("Reshape", [blocks, integers([0, int(x.shape[1]), *full])])
    if list(outsize) == full:
        return joined
    return node("Slice", [joined, *map(integers, ([0, 0], outsize, [2, 3]))])


@function()
def unpooling_2d(
    x: Any, ksize: Any, stride: Any = None, pad: Any = 0, outsize: Any = None, cover_all: bool = True
) -> Variable:
    """Every element as a block, where blocks neither overlap nor leave gaps."""
    kernel = _blocks(ksize, stride, pad, "unpooling with blocks")
    sizes = [step * int(size) for step, size in zip(kernel, x.shape[2:], strict=True)]
    if outsize is not None and list(outsize) != sizes:
        raise CodeError(f"unpooling to {tuple(outsize)}, other than {tuple(sizes)}, is not supported")
    if outsize is None and cover_all and kernel != [1, 1]:
        raise CodeError(
            "unpooling with cover_all to an unknown size is not supported; set outsize or cover_all=False"
        )
    scales = current().constant([1.0, 1.0, *map(float, kernel)])
    return node("Resize", [x, None, scales], REPEATED)


@function()
def fixed_batch_normalization(
    x: Any, gamma: Any, beta: Any, mean: Any, var: Any, eps: float = 2e-5, axis: Any = None
) -> Variable:
    """By stored statistics; Chainer's epsilon is 2e-5."""
    record, kept = current(), kept_axes(x.ndim, axis)
    if kept == [1]:
        attributes = {"epsilon": float(eps), "momentum": 0.9}
        return node("BatchNormalization", [x, gamma, beta, mean, var], attributes)
    shape = integers([int(x.shape[a]) if a in kept else 1 for a in range(x.ndim)])
    gamma, beta, mean, var = (record.add("Reshape", [array, shape]) for array in (gamma, beta, mean, var))
    root = record.add("Sqrt", [record.add("Add", [var, record.constant(float(eps))])])
    centred = record.add("Sub", [x, mean])
    scaled = record.add("Mul", [centred, record.add("Div", [gamma, root])])
    return node("Add", [scaled, beta])


def kept_axes(rank: int, axis: Any) -> list[int]:
    """Return the axes whose every element has numbers of its own: those that are not normalised over."""
    over = [0, *range(2, rank)] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    return [each for each in range(rank) if each not in over]


@function(takes="x, gamma, beta, *, eps=2e-5, running_mean=None, running_var=None, decay=0.9, axis=None")
def batch_normalization() -> Variable:
    """By the batch's own statistics: only training knows it."""
    raise CodeError("normalises by the statistics of the batch; for inference, use fixed_batch_normalization")


@function()
def local_response_normalization(
    x: Any, n: int = 5, k: float = 2, alpha: float = 1e-4, beta: float = 0.75
) -> Variable:
    """Across channels; alpha is not divided by the size, as it is in ONNX."""
    size = 2 * (int(n) // 2) + 1
    attributes = {"size": size, "alpha": float(alpha) * size, "beta": float(beta), "bias": float(k)}
    return node("LRN", [x], attributes)


@function()
def normalize(x: Any, eps: float = 1e-5, axis: Any = 1) -> Variable:
    """To length 1 along an axis, epsilon added to the length."""
    record = current()
    axes = integers([axis] if isinstance(axis, int) else list(axis))
    length = record.add("ReduceL2", [x, axes], {"keepdims": 1})
    return node("Div", [x, record.add("Add", [length, record.constant(eps)])])


@function()
def layer_normalization(x: Any, gamma: Any, beta: Any, eps: float = 1e-5) -> Variable:
    """By the statistics of each row."""
    attributes = {"axis": 1, "epsilon": float(eps)}
    return node("LayerNormalization", [x, gamma, beta], attributes)


@function()
def group_normalization(x: Any, groups: int, gamma: Any, beta: Any, eps: float = 1e-5) -> Variable:
    """By the statistics of each group of channels."""
    attributes = {"num_groups": int(groups), "epsilon": float(eps)}
    return node("GroupNormalization", [x, gamma, beta], attributes)
