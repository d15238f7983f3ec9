"""Joining values element by element, and sums and choices along axes.

``eltwise_layer.cpp``, ``scale_layer.cpp``, ``bias_layer.cpp``; Reduction, ArgMax and Softmax.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering import MANY
from netweave.graph.wording import dims_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message


_ELTWISE = {"PROD": "Mul", "SUM": "Sum", "MAX": "Max"}


@layer("Eltwise", bottoms=(2, MANY))
def eltwise(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Product, sum with coefficients, or maximum of bottoms of one size; nothing is broadcast."""
    parameter = ctx.spec["eltwise_param"]
    operation, coefficients = parameter["operation"], parameter["coeff"]
    shapes = [ctx.shape(bottom) for bottom in ctx.bottoms]
    if len(set(shapes)) > 1:
        raise ctx.shape_error(
            f"its bottoms must have the same shape, found {', '.join(map(dims_text, shapes))}"
        )
    if coefficients and (operation == "PROD" or len(coefficients) != len(ctx.bottoms)):
        raise ctx.read_error(
            f"has {len(coefficients)} 'coeff' for {operation} of {len(ctx.bottoms)} bottoms; "
            "expected none, or with SUM one for each",
            parameter.line_of("coeff"),
        )
    values = list(ctx.bottoms)
    if operation == "SUM":
        for index, coefficient in enumerate(coefficients):
            if coefficient != 1:
                values[index] = ctx.add("Mul", [values[index], ctx.constant(coefficient)])
    if operation != "PROD":
        return [ctx.add(_ELTWISE[operation], values, top=0)]
    product = values[0]
    for index, value in enumerate(values[1:], start=2):
        product = ctx.add("Mul", [product, value], top=0 if index == len(values) else None)
    return [product]


@layer("Axpy", bottoms=3)
def scaled_sum(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The first bottom, a number for each channel, times the second, plus the third: ``axpy_layer.cpp``."""
    scale, x, y = (ctx.shape(ctx.bottoms[index]) for index in range(3))
    if x != y or scale[:2] != x[:2] or any(size != 1 for size in scale[2:]):
        raise ctx.shape_error(
            f"its bottoms are {dims_text(scale)}, {dims_text(x)} and {dims_text(y)}, expected one number per "
            "channel and two of the same shape"
        )
    factor = ctx.x
    if len(scale) < len(x):
        shape = ctx.integers([0, 0, *[1] * (len(x) - 2)])
        factor = ctx.add("Reshape", [factor, shape])
    return [ctx.add("Add", [ctx.add("Mul", [ctx.bottoms[1], factor]), ctx.bottoms[2]], top=0)]


@layer("Scale", bottoms=(1, 2))
def scale(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Times a stored array or the second bottom, then plus a stored bias, along some axes."""
    parameter = ctx.spec["scale_param"]
    gamma, shape, layout = _factor(ctx, parameter, "gamma")
    if not parameter["bias_term"]:
        return [ctx.add("Mul", [ctx.x, gamma], top=0)]
    bias = ctx.blob(2 - len(ctx.bottoms), shape, "beta", parameter["bias_filler"], layout=layout)
    return [ctx.add("Add", [ctx.add("Mul", [ctx.x, gamma]), bias], top=0)]


@layer("Bias", bottoms=(1, 2))
def bias(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Plus a stored array or the second bottom, along some axes."""
    term, _, _ = _factor(ctx, ctx.spec["bias_param"], "bias")
    return [ctx.add("Add", [ctx.x, term], top=0)]


def _factor(
    ctx: CaffeLayer, parameter: Message, role: str
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the operand, ready to be broadcast, with its sizes in Caffe and the steps between them."""
    whole = ctx.shape()
    if len(ctx.bottoms) == 2:
        return _second_bottom(ctx, parameter)
    num_axes = parameter["num_axes"]
    axis = ctx.axis(parameter["axis"]) if num_axes else 0
    end = len(whole) if num_axes == -1 else axis + num_axes
    if num_axes < -1 or end > len(whole):
        raise ctx.shape_error(f"axes {axis} to {end - 1} are out of range for {len(whole)} axes")
    shape = tuple(ctx.size(each) for each in range(axis, end))
    layout = _broadcast(shape, len(whole) - end)
    return ctx.blob(0, shape, role, parameter["filler"], layout=layout), shape, layout


def _second_bottom(
    ctx: CaffeLayer, parameter: Message
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    whole, part = ctx.shape(), ctx.shape(ctx.bottoms[1])
    axis = ctx.axis(parameter["axis"]) if part else 0
    if whole[axis : axis + len(part)] != part:
        raise ctx.shape_error(
            f"its second bottom is {dims_text(part)}, which does not match the first ({dims_text(whole)}) "
            f"from axis {axis} on"
        )
    behind = len(whole) - axis - len(part)
    operand = ctx.bottoms[1]
    if behind and part:
        axes = list(range(len(part), len(part) + behind))
        operand = ctx.unsqueeze(operand, axes)
    shape = tuple(size or ctx.batch or 1 for size in part)
    return operand, shape, _broadcast(shape, behind)


def _broadcast(shape: tuple[int, ...], behind: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("reshape", (*shape, *[1] * behind)),) if shape and behind else ()


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
    return values, ctx.cast(indices, ir.DataType.FLOAT)
