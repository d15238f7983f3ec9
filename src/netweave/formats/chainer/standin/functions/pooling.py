"""``chainer.functions.pooling``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.standin.functions.table import function, pair, wrap
from netweave.formats.chainer.standin.recorder import current
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    from netweave.formats.chainer.standin.variable import Variable


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
) -> Variable:
    """The largest of each window; by default the last window may lie in the padding (``cover_all``)."""
    if return_indices:
        raise CodeError("max pooling with return_indices is not recorded")
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
