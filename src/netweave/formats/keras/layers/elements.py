"""Functions of ``keras.ops`` on each element and over axes, as they stand between layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last.axes import along
from netweave.files.channels_last.axes import reduce as reduce_axes
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.keras.call import Call

PLAIN = {
    "Absolute": "Abs",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Log": "Log",
    "Negative": "Neg",
    "Reciprocal": "Reciprocal",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Softplus": "Softplus",
    "Sqrt": "Sqrt",
    "Tanh": "Tanh",
}
"""Functions of one tensor, and ONNX's name."""

REDUCTIONS = {
    "Max": "ReduceMax",
    "Mean": "ReduceMean",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "Sum": "ReduceSum",
}
"""Functions over axes, and ONNX's name."""


@layer_reader(*PLAIN)
def plain(call: Call) -> Tensor:
    """A function of each element."""
    return unary(call.writer, PLAIN[call.layer.type], call.x)


@layer_reader("Square")
def square(call: Call) -> Tensor:
    """Times itself."""
    return broadcast(call.writer, "Mul", [call.x, call.x])


@layer_reader("Rsqrt")
def rsqrt(call: Call) -> Tensor:
    """One by the square root."""
    return unary(call.writer, "Reciprocal", unary(call.writer, "Sqrt", call.x))


@layer_reader("LogSoftmax")
def log_softmax(call: Call) -> Tensor:
    """The logarithm of a softmax, over one axis."""
    return along(call.writer, "LogSoftmax", call.x, call.whole("axis", -1))


@layer_reader("Clip")
def clip(call: Call) -> Tensor:
    """Between two numbers."""
    bounds = [call.writer.number(call.real(name, 0.0), call.x.value) for name in ("x_min", "x_max")]
    return unary(call.writer, "Clip", call.x, more=bounds)


@layer_reader("Cast")
def cast(call: Call) -> Tensor:
    """As another type of elements."""
    name = call.word("dtype", "float32")
    try:
        kind = ir.DataType.from_numpy(np.dtype(name))
    except TypeError:
        raise call.refuse(f"dtype={name!r:.40} is no type of elements that is read") from None
    return unary(call.writer, "Cast", call.x, {"to": int(kind)})


@layer_reader(*REDUCTIONS)
def reduction(call: Call) -> Tensor:
    """Over some axes, or all of them."""
    axes = reduced_axes(call)
    op_type = REDUCTIONS[call.layer.type]
    return reduce_axes(call.writer, op_type, call.x, axes, keep=call.flag("keepdims", False))


def reduced_axes(call: Call) -> list[int]:
    """Return the axes that a function goes over: those of ``axis``, all if it says none."""
    axis = call.setting("axis")
    axes = (
        list(range(len(call.shape(call.x)))) if axis is None else axis if isinstance(axis, list) else [axis]
    )
    if not all(isinstance(each, int) for each in axes):
        raise call.wrong(f"axis={axis!r:.40}, expected whole numbers")
    return axes
