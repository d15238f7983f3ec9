"""Operators without inputs (init_op.h). A size 0 is one that MXNet infers, mostly the batch."""

from __future__ import annotations

from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator

FILLS = {"_zeros": 0.0, "_ones": 1.0}


@operator_reader("_zeros", "_ones", "_full", arguments=())
def filled(ctx: MXNetOperator) -> ir.Value:
    """One number everywhere; an open size becomes 1, which broadcasts."""
    settings = ctx.settings
    settings.ignore("ctx")
    value = FILLS[ctx.op] if ctx.op in FILLS else settings.number("value")
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    wanted = settings.integers("shape", ())
    sizes = [size if size > 0 else 1 for size in wanted]
    if sizes != list(wanted):
        ctx.note_open_fill()
    fill = ir.tensor(np.asarray([value], dtype.numpy()))
    return ctx.add("ConstantOfShape", [ctx.integers(sizes)], {"value": fill})


@operator_reader("_arange", arguments=())
def arange(ctx: MXNetOperator) -> ir.Value:
    """Numbers from ``start`` to before ``stop``, each ``repeat`` times."""
    settings = ctx.settings
    settings.ignore("ctx")
    start, stop = settings.number("start", 0.0), settings.number("stop", None)
    step, times = settings.number("step", 1.0), settings.count("repeat", 1)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    if settings.flag("infer_range", False):
        raise ctx.unsupported("infer_range=True is not supported")
    if stop is None:
        start, stop = 0.0, start
    if not (isfinite(start) and isfinite(stop) and isfinite(step) and step):
        raise ctx.read_error(f"counts from {start} to {stop} by {step}, expected finite numbers and a step")
    ctx.arange(ceil((stop - start) / step) * times)
    return ctx.array(np.repeat(np.arange(start, stop, step).astype(dtype.numpy()), times))


@operator_reader("_contrib_arange_like")
def arange_like(ctx: MXNetOperator) -> ir.Value:
    """Numbers from ``start`` on, as many as the input has along an axis."""
    settings = ctx.settings
    settings.ignore("ctx")
    start, step = settings.number("start", 0.0), settings.number("step", 1.0)
    axis = settings.integer("axis", None)
    if axis is None or settings.integer("repeat", 1) != 1:
        raise ctx.unsupported("without an axis, or with repeat, it is not supported")
    size = ctx.size(axis)
    return ctx.array((start + step * ctx.arange(size)).astype(np.float32))


@operator_reader("_contrib_div_sqrt_dim")
def div_sqrt_dim(ctx: MXNetOperator) -> ir.Value:
    """Divided by the root of the last size."""
    return ctx.add("Div", [ctx.x, ctx.scalar(ctx.size(-1) ** 0.5, ctx.x)])
