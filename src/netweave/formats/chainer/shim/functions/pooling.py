"""``chainer.functions.pooling``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, integers, node, pair
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.lowering.resizing import REPEATED
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    from netweave.formats.chainer.shim.variable import Variable


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
