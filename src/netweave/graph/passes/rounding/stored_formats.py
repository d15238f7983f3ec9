"""Arrays that a file stores in fewer bits, and that its reader gave as real numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import parameter_key, parameter_layout
from netweave.graph.parameters import apply_layout
from netweave.graph.passes.rounding.formats import FLOATS, Quantiser, StoredRounding
from netweave.graph.passes.rounding.layers import NotExplicitError

if TYPE_CHECKING:
    from netweave.graph import Graph, Parameter

MAX_INTEGER = 2.0**62
"""What a damaged scale makes of a number; every integer of a file is less."""


def stored_formats(graph: Graph) -> dict[str, StoredRounding]:
    """Return how initializers are stored, by name, as their parameters say it.

    Raises:
        NotExplicitError: The scales of an array run along no axis of the initializer made from it.
    """
    stored = {}
    for name, value in graph.model.graph.initializers.items():
        parameter = graph.parameters.get(parameter_key(value) or "")
        if parameter is None or parameter.stored_format is None or value.const_value is None:
            continue
        dtype = ir.DataType[parameter.stored_format.dtype.upper()]
        if dtype in FLOATS:
            stored[str(name)] = StoredRounding(dtype)
            continue
        quantiser = _quantiser(parameter, value, dtype)
        real = value.const_value.numpy().astype(np.float64)
        zero = quantiser.spread(quantiser.zero_point, real.shape)
        steps = np.where(quantiser.steps(real.shape) == 0, 1.0, quantiser.steps(real.shape))
        integers = (
            np.nan_to_num(np.rint(real / steps)).clip(-MAX_INTEGER, MAX_INTEGER).astype(np.int64) + zero
        )
        stored[str(name)] = StoredRounding(dtype, quantiser, integers)
    return stored


def _quantiser(parameter: Parameter, value: ir.Value, dtype: ir.DataType) -> Quantiser:
    """Return how an initializer stands for its integers: scales along its own axis."""
    known = parameter.stored_format
    assert known is not None
    scale, zero = np.asarray(known.scale, np.float32), np.asarray(known.zero_point, np.int64)
    if scale.size == 1:
        return Quantiser(dtype, scale.reshape(()), zero.reshape(-1)[:1].reshape(()))
    # the layout is followed with the index of the scale in the place of each number
    along = [-1 if axis == known.axis else 1 for axis in range(len(parameter.shape))]
    indices = np.broadcast_to(np.arange(scale.size).reshape(along), parameter.shape)
    laid = apply_layout(indices, parameter_layout(value))
    for axis in range(laid.ndim):
        rows = np.moveaxis(laid, axis, 0).reshape(laid.shape[axis], -1)
        if (rows == rows[:, :1]).all():
            zeros = zero if zero.size == 1 else zero[rows[:, 0]]
            return Quantiser(dtype, scale[rows[:, 0]], zeros, axis)
    raise NotExplicitError(f"the scales of {parameter.key!r} run along no axis of {value.name!r}")
