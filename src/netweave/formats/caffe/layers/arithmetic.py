"""Joining values element by element: ``eltwise_layer.cpp``, ``scale_layer.cpp``, ``bias_layer.cpp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.blobs import sizes
from netweave.formats.caffe.call import MANY, Call, layer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message

_ELTWISE = {"PROD": "Mul", "SUM": "Sum", "MAX": "Max"}


@layer("Eltwise", bottoms=(2, MANY))
def eltwise(call: Call) -> Sequence[ir.Value]:
    """Product, sum with coefficients, or maximum of bottoms of one size; nothing is broadcast."""
    parameter = call.spec["eltwise_param"]
    operation, coefficients = parameter["operation"], parameter["coeff"]
    shapes = [call.shape(index) for index in range(len(call.bottoms))]
    if len(set(shapes)) > 1:
        raise call.wrong_shape(f"its bottoms must be of one size, found {', '.join(map(sizes, shapes))}")
    if coefficients and (operation == "PROD" or len(coefficients) != len(call.bottoms)):
        raise call.wrong(
            f"has {len(coefficients)} 'coeff' for {operation} of {len(call.bottoms)} bottoms; "
            "expected none, or with SUM one for each",
            parameter.line_of("coeff"),
        )
    values = list(call.bottoms)
    if operation == "SUM":
        for index, coefficient in enumerate(coefficients):
            if coefficient != 1:
                values[index] = call.add("Mul", [values[index], call.constant(coefficient)])
    if operation != "PROD":
        return [call.add(_ELTWISE[operation], values, top=0)]
    product = values[0]
    for index, value in enumerate(values[1:], start=2):
        product = call.add("Mul", [product, value], top=0 if index == len(values) else None)
    return [product]


@layer("Axpy", bottoms=3)
def scaled_sum(call: Call) -> Sequence[ir.Value]:
    """The first bottom, a number for each channel, times the second, plus the third: ``axpy_layer.cpp``."""
    scale, x, y = (call.shape(index) for index in range(3))
    if x != y or scale[:2] != x[:2] or any(size != 1 for size in scale[2:]):
        raise call.wrong_shape(
            f"its bottoms are {sizes(scale)}, {sizes(x)} and {sizes(y)}, expected a number for each channel "
            "and two of one size"
        )
    factor = call.bottoms[0]
    if len(scale) < len(x):
        shape = call.constant([0, 0, *[1] * (len(x) - 2)], dtype="int64")
        factor = call.add("Reshape", [factor, shape])
    return [call.add("Add", [call.add("Mul", [call.bottoms[1], factor]), call.bottoms[2]], top=0)]


@layer("Scale", bottoms=(1, 2))
def scale(call: Call) -> Sequence[ir.Value]:
    """Times a stored array or the second bottom, then plus a stored bias, along some axes."""
    parameter = call.spec["scale_param"]
    gamma, shape, layout = _factor(call, parameter, "gamma")
    if not parameter["bias_term"]:
        return [call.add("Mul", [call.bottoms[0], gamma], top=0)]
    bias = call.blob(2 - len(call.bottoms), shape, "beta", parameter["bias_filler"], layout=layout)
    return [call.add("Add", [call.add("Mul", [call.bottoms[0], gamma]), bias], top=0)]


@layer("Bias", bottoms=(1, 2))
def bias(call: Call) -> Sequence[ir.Value]:
    """Plus a stored array or the second bottom, along some axes."""
    term, _, _ = _factor(call, call.spec["bias_param"], "bias")
    return [call.add("Add", [call.bottoms[0], term], top=0)]


def _factor(
    call: Call, parameter: Message, role: str
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    """Return the operand, ready to be broadcast, with its sizes in Caffe and the steps between them."""
    whole = call.shape()
    if len(call.bottoms) == 2:
        return _second_bottom(call, parameter)
    num_axes = parameter["num_axes"]
    axis = call.axis(parameter["axis"]) if num_axes else 0
    end = len(whole) if num_axes == -1 else axis + num_axes
    if num_axes < -1 or end > len(whole):
        raise call.wrong_shape(f"axes {axis} to {end - 1} are out of range for {len(whole)} axes")
    shape = tuple(call.size(each) for each in range(axis, end))
    layout = _broadcast(shape, len(whole) - end)
    return call.blob(0, shape, role, parameter["filler"], layout=layout), shape, layout


def _second_bottom(
    call: Call, parameter: Message
) -> tuple[ir.Value, tuple[int, ...], tuple[tuple[str, tuple[int, ...]], ...]]:
    whole, part = call.shape(), call.shape(1)
    axis = call.axis(parameter["axis"]) if part else 0
    if whole[axis : axis + len(part)] != part:
        raise call.wrong_shape(
            f"its second bottom is {sizes(part)}, which are not the sizes of the first ({sizes(whole)}) "
            f"from axis {axis} on"
        )
    behind = len(whole) - axis - len(part)
    operand = call.bottoms[1]
    if behind and part:
        axes = list(range(len(part), len(part) + behind))
        operand = call.add("Unsqueeze", [operand, call.constant(axes, dtype="int64")])
    shape = tuple(size or call.batch or 1 for size in part)
    return operand, shape, _broadcast(shape, behind)


def _broadcast(shape: tuple[int, ...], behind: int) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (("reshape", (*shape, *[1] * behind)),) if shape and behind else ()
