"""Layers that sum up or choose along axes: Reduction, ArgMax, Softmax."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.formats.caffe.context import CaffeLayer, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

_FLOAT = 1
_REDUCTIONS = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}


@layer("Reduction")
def reduction(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Sum, sum of magnitudes, of squares, or mean over all axes from ``axis`` on, times a coefficient."""
    parameter = ctx.spec["reduction_param"]
    axes = list(range(ctx.axis(parameter["axis"]), ctx.rank()))
    inputs = [ctx.x, ctx.integers(axes)]
    coefficient = parameter["coeff"]
    plain = coefficient == 1
    found = ctx.add(_REDUCTIONS[parameter["operation"]], inputs, {"keepdims": 0}, top=0 if plain else None)
    return [found if plain else ctx.add("Mul", [found, ctx.constant(coefficient)], top=0)]


@layer("Softmax")
def softmax(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Softmax along one axis."""
    axis = ctx.axis(ctx.spec["softmax_param"]["axis"])
    return [ctx.add("Softmax", [ctx.x], {"axis": axis}, top=0)]


@layer("ArgMax")
def arg_max(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Indices of the ``top_k`` largest, as floats; of equal ones the last comes first.

    Without an axis, over all of an image: (N, 1, top_k), with values (N, 2, top_k). With one, that axis
    becomes ``top_k`` indices, or values instead if ``out_max_val``.
    """
    parameter = ctx.spec["argmax_param"]
    top_k, values_too = parameter["top_k"], parameter["out_max_val"]
    has_axis = "axis" in parameter
    axis = ctx.axis(parameter["axis"]) if has_axis else 1
    shape = ctx.shape()
    count = ctx.size(axis) if has_axis else prod(ctx.size(each) for each in range(1, len(shape)))
    if not 1 <= top_k <= count:
        raise ctx.read_error(f"'top_k' is {top_k}, expected 1 to {count}", parameter.line_of("top_k"))
    x = ctx.x if has_axis else ctx.add("Flatten", [ctx.x], {"axis": 1})
    values, indices = _largest(ctx, x, axis, top_k, count)
    if has_axis:
        return [ctx.add("Identity", [values if values_too else indices], top=0)]
    middle = ctx.integers([1])
    if not values_too:
        return [ctx.add("Unsqueeze", [indices, middle], top=0)]
    parts = [ctx.add("Unsqueeze", [part, middle]) for part in (indices, values)]
    return [ctx.add("Concat", parts, {"axis": 1}, top=0)]


def _largest(ctx: CaffeLayer, x: ir.Value, axis: int, top_k: int, count: int) -> tuple[ir.Value, ir.Value]:
    """Return values and indices; TopK prefers the first of equal ones, so it is given them backwards."""
    ends = ([-1], [-count - 1], [axis], [-1])
    backwards = ctx.add("Slice", [x, *(ctx.constant(end, dtype="int64") for end in ends)])
    k = ctx.integers([top_k])
    values, places = ctx.add_many("TopK", [backwards, k], {"axis": axis}, outputs=2)
    indices = ctx.add("Sub", [ctx.constant(count - 1, dtype="int64"), places])
    return values, ctx.add("Cast", [indices], {"to": _FLOAT})
