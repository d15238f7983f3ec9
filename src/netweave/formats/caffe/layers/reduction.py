"""Layers that sum up or choose along axes: Reduction, ArgMax, Softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

_FLOAT = 1
_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


@layer("Reduction")
def reduction(call: Call) -> Sequence[ir.Value]:
    """Sum, sum of magnitudes, of squares, or mean over all axes from ``axis`` on, times a coefficient."""
    parameter = call.spec["reduction_param"]
    axes = list(range(call.axis(parameter["axis"]), len(call.shape())))
    inputs = [call.bottoms[0], call.constant(axes, dtype="int64")]
    coefficient = parameter["coeff"]
    plain = coefficient == 1
    found = call.add(_REDUCTIONS[parameter["operation"]], inputs, {"keepdims": 0}, top=0 if plain else None)
    return [found if plain else call.add("Mul", [found, call.constant(coefficient)], top=0)]


@layer("Softmax")
def softmax(call: Call) -> Sequence[ir.Value]:
    """Softmax along one axis."""
    axis = call.axis(call.spec["softmax_param"]["axis"])
    return [call.add("Softmax", [call.bottoms[0]], {"axis": axis}, top=0)]


@layer("ArgMax")
def arg_max(call: Call) -> Sequence[ir.Value]:
    """Indices of the ``top_k`` largest, as floats; of equal ones the last comes first.

    Without an axis, over all of an image: (N, 1, top_k), with values (N, 2, top_k). With one, that axis
    becomes ``top_k`` indices, or values instead if ``out_max_val``.
    """
    parameter = call.spec["argmax_param"]
    top_k, values_too = parameter["top_k"], parameter["out_max_val"]
    has_axis = "axis" in parameter
    axis = call.axis(parameter["axis"]) if has_axis else 1
    shape = call.shape()
    count = call.size(axis) if has_axis else prod(call.size(each) for each in range(1, len(shape)))
    if not 1 <= top_k <= count:
        raise call.wrong(f"'top_k' is {top_k}, expected 1 to {count}", parameter.line_of("top_k"))
    x = call.bottoms[0] if has_axis else call.add("Flatten", [call.bottoms[0]], {"axis": 1})
    values, indices = _largest(call, x, axis, top_k, count)
    if has_axis:
        return [call.add("Identity", [values if values_too else indices], top=0)]
    middle = call.constant([1], dtype="int64")
    if not values_too:
        return [call.add("Unsqueeze", [indices, middle], top=0)]
    parts = [call.add("Unsqueeze", [part, middle]) for part in (indices, values)]
    return [call.add("Concat", parts, {"axis": 1}, top=0)]


def _largest(call: Call, x: ir.Value, axis: int, top_k: int, count: int) -> tuple[ir.Value, ir.Value]:
    """Return values and indices; TopK prefers the first of equal ones, so it is given them backwards."""
    ends = ([-1], [-count - 1], [axis], [-1])
    backwards = call.add("Slice", [x, *(call.constant(end, dtype="int64") for end in ends)])
    k = call.constant([top_k], dtype="int64")
    values, places = call.builder.add_many("TopK", [backwards, k], {"axis": axis}, outputs=["", ""])
    indices = call.add("Sub", [call.constant(count - 1, dtype="int64"), places])
    return values, call.add("Cast", [indices], {"to": _FLOAT})
