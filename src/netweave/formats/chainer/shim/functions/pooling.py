"""``chainer.functions.pooling``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import function, pair, wrap
from netweave.formats.chainer.shim.recorder import current
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
    return wrap(current().add(op_type, [x], attributes, domain=domain))


@function("max_pooling_2d", "max_pooling_nd", "max_pooling_1d", "max_pooling_3d")
def max_pooling_2d(
    x: Any,
    ksize: Any,
    stride: Any = None,
    pad: Any = 0,
    cover_all: bool = True,
    return_indices: bool = False,
) -> Any:
    """The largest of each window; by default the last window may lie in the padding (``cover_all``)."""
    if return_indices:
        return _with_places(x, ksize, stride, pad, cover_all=cover_all)
    rounding = "full" if cover_all else "floor"
    return _pool(x, ksize, stride, pad, average=False, rounding=rounding, include=False)


@function()
def average_pooling_2d(x: Any, ksize: Any, stride: Any = None, pad: Any = 0) -> Variable:
    """The mean of each window, padding included; the number of windows is rounded down."""
    return _pool(x, ksize, stride, pad, average=True, rounding="floor", include=True)


@function("average_pooling_nd", "average_pooling_1d", "average_pooling_3d")
def average_pooling_nd(x: Any, ksize: Any, stride: Any = None, pad: Any = 0, pad_value: Any = 0) -> Variable:
    """The mean of each window, its padding included unless ``pad_value`` is None."""
    include = pad_value is not None
    return _pool(x, ksize, stride, pad, average=True, rounding="floor", include=include)


def _with_places(x: Any, ksize: Any, stride: Any, pad: Any, *, cover_all: bool) -> tuple[Variable, Variable]:
    """Return the largest of each window and its place in the window, row by row."""
    kernel = pair(ksize)
    if kernel != (kernel if stride is None else pair(stride)) or pair(pad) != [0, 0]:
        raise CodeError("max pooling with return_indices and windows that overlap or padding is not recorded")
    record = current()
    rows, columns = ((int(size) // k, int(size) % k) for size, k in zip(x.shape[2:], kernel, strict=True))
    if cover_all:
        ends = [0, 0, *((k - over) % k for k, (_, over) in zip(kernel, (rows, columns), strict=True))]
        lowest = record.constant(np.finfo(np.float32).min)
        whole = record.add("Pad", [x, record.constant([0, 0, 0, 0, *ends], dtype="int64"), lowest])
        rows, columns = ((count + bool(over), 0) for count, over in (rows, columns))
    else:
        stops = [rows[0] * kernel[0], columns[0] * kernel[1]]
        bounds = ([0, 0], stops, [2, 3])
        whole = record.add("Slice", [x, *(record.constant(each, dtype="int64") for each in bounds)])
    cut = [0, int(x.shape[1]), rows[0], kernel[0], columns[0], kernel[1]]
    blocks = record.add("Reshape", [whole, record.constant(cut, dtype="int64")])
    windows = record.add("Transpose", [blocks], {"perm": [0, 1, 2, 4, 3, 5]})
    flat = [0, 0, 0, 0, kernel[0] * kernel[1]]
    windows = record.add("Reshape", [windows, record.constant(flat, dtype="int64")])
    largest = record.add("ReduceMax", [windows, record.constant([4], dtype="int64")], {"keepdims": 0})
    return wrap(largest), wrap(record.add("ArgMax", [windows], {"axis": 4, "keepdims": 0}))


@function()
def upsampling_2d(
    x: Any,
    indexes: Any,
    ksize: Any,
    stride: Any = None,
    pad: Any = 0,
    outsize: Any = None,
    cover_all: bool = True,
) -> Variable:
    """Every element at its place in a block of zeros, where blocks neither overlap nor leave gaps."""
    kernel, record = pair(ksize), current()
    if kernel != (kernel if stride is None else pair(stride)) or pair(pad) != [0, 0]:
        raise CodeError("upsampling with blocks that overlap, or with padding, is not recorded")
    own = [int(size) for size in x.shape[2:]]
    whole = [size * k for size, k in zip(own, kernel, strict=True)]
    least = [(size - 1) * k + 1 for size, k in zip(own, kernel, strict=True)]
    if outsize is None:
        outsize = least if cover_all else whole
    if any(not low <= size <= high for low, size, high in zip(least, outsize, whole, strict=True)):
        raise CodeError(f"upsampling of {tuple(own)} to {tuple(outsize)} is not recorded")
    last = record.constant([-1], dtype="int64")
    places = record.constant(np.arange(kernel[0] * kernel[1]), dtype="int64")
    is_there = record.add("Equal", [record.add("Unsqueeze", [indexes, last]), places])
    spread = record.add("Where", [is_there, record.add("Unsqueeze", [x, last]), record.constant(0.0)])
    cut = record.constant([0, 0, 0, 0, *kernel], dtype="int64")
    blocks = record.add("Transpose", [record.add("Reshape", [spread, cut])], {"perm": [0, 1, 2, 4, 3, 5]})
    made = record.add("Reshape", [blocks, record.constant([0, int(x.shape[1]), *whole], dtype="int64")])
    if list(outsize) != whole:
        bounds = ([0, 0], list(map(int, outsize)), [2, 3])
        made = record.add("Slice", [made, *(record.constant(each, dtype="int64") for each in bounds)])
    return wrap(made)


@function()
def unpooling_2d(
    x: Any, ksize: Any, stride: Any = None, pad: Any = 0, outsize: Any = None, cover_all: bool = True
) -> Variable:
    """Every element as a block, where blocks neither overlap nor leave gaps."""
    kernel = pair(ksize)
    steps = kernel if stride is None else pair(stride)
    sizes = [step * int(size) for step, size in zip(steps, x.shape[2:], strict=True)]
    if kernel != steps or pair(pad) != [0, 0] or (outsize is not None and list(outsize) != sizes):
        raise CodeError("unpooling with blocks that overlap, padding or another size is not recorded")
    if outsize is None and cover_all and kernel != [1, 1]:
        raise CodeError(
            "unpooling with cover_all to an open size is not recorded: say outsize or cover_all=False"
        )
    record = current()
    scales = record.constant([1.0, 1.0, *map(float, kernel)])
    attributes = {
        "mode": "nearest",
        "coordinate_transformation_mode": "asymmetric",
        "nearest_mode": "floor",
    }
    return wrap(record.add("Resize", [x, None, scales], attributes))
