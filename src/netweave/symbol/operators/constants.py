"""Operators without inputs (init_op.h). A size 0 is one that MXNet infers, mostly the batch."""

from __future__ import annotations

from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.symbol.registry import operator_reader
from netweave.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from netweave.symbol.call import Call

FILLS = {"_zeros": 0.0, "_ones": 1.0}


@operator_reader("_zeros", "_ones", "_full", arguments=())
def filled(call: Call) -> ir.Value:
    """One number everywhere; an open size becomes 1, which broadcasts."""
    settings = call.settings
    settings.skip("ctx")
    value = FILLS[call.op] if call.op in FILLS else settings.number("value")
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    sizes = [size if size > 0 else 1 for size in settings.sizes("shape", ())]
    fill = ir.tensor(np.asarray([value], dtype.numpy()))
    return call.add("ConstantOfShape", [call.whole_numbers(sizes)], {"value": fill})


@operator_reader("_arange", arguments=())
def arange(call: Call) -> ir.Value:
    """Numbers from ``start`` to before ``stop``, each ``repeat`` times."""
    settings = call.settings
    settings.skip("ctx")
    start, stop = settings.number("start", 0.0), settings.number("stop", None)
    step, times = settings.number("step", 1.0), settings.count("repeat", 1)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    if settings.flag("infer_range", False):
        raise call.refuse("infer_range=True is not read")
    if stop is None:
        start, stop = 0.0, start
    if not (isfinite(start) and isfinite(stop) and isfinite(step) and step):
        raise call.wrong(f"from {start} to {stop} by {step}")
    call.arange(ceil((stop - start) / step) * times)
    return call.array(np.repeat(np.arange(start, stop, step).astype(dtype.numpy()), times))


@operator_reader("_contrib_arange_like")
def arange_like(call: Call) -> ir.Value:
    """Numbers from ``start`` on, as many as the input has along an axis."""
    settings = call.settings
    settings.skip("ctx")
    start, step = settings.number("start", 0.0), settings.number("step", 1.0)
    axis = settings.whole("axis", None)
    if axis is None or settings.whole("repeat", 1) != 1:
        raise call.refuse("without an axis, or with repeat, it is not read")
    x = call.value("data")
    (size,) = call.known_sizes(x, [call.axis(axis, len(call.shape(x)))])
    return call.array((start + step * call.arange(size)).astype(np.float32))


@operator_reader("_contrib_div_sqrt_dim")
def div_sqrt_dim(call: Call) -> ir.Value:
    """Divided by the root of the last size."""
    x = call.value()
    (size,) = call.known_sizes(x, [-1])
    return call.add("Div", [x, call.scalar(size**0.5, x)])
