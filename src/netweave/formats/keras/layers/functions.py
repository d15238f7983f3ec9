"""Functions of ``keras.ops`` that stand between layers in a file of Keras 3, as those of masks do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import reduce, widen
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.formats.keras.call import Call

COMPARISONS = {
    "Equal": "Equal",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "NotEqual": "Equal",
}
LOGIC = {"LogicalAnd": "And", "LogicalOr": "Or"}


@layer_reader(*COMPARISONS)
def comparison(call: Call) -> Tensor:
    """Of two tensors, or of a tensor and a number."""
    made = broadcast(call.writer, COMPARISONS[call.layer.type], _pair(call))
    return unary(call.writer, "Not", made) if call.layer.type == "NotEqual" else made


@layer_reader(*LOGIC)
def logic(call: Call) -> Tensor:
    """Of two masks."""
    return broadcast(call.writer, LOGIC[call.layer.type], _pair(call))


@layer_reader("LogicalNot")
def logical_not(call: Call) -> Tensor:
    """The other way round."""
    return unary(call.writer, "Not", call.x)


@layer_reader("Any", "All")
def over_axes(call: Call) -> Tensor:
    """Whether one or every element holds, over some axes."""
    axis = call.setting("axis")
    rank = len(call.shape(call.x))
    axes = list(range(rank)) if axis is None else axis if isinstance(axis, list) else [axis]
    if not all(isinstance(each, int) for each in axes):
        raise call.wrong(f"axis={axis!r:.40}, expected whole numbers")
    numbers = unary(call.writer, "Cast", call.x, {"to": int(ir.DataType.INT32)})
    op_type = "ReduceMax" if call.layer.type == "Any" else "ReduceMin"
    made = reduce(call.writer, op_type, numbers, axes, keep=call.flag("keepdims", False))
    return unary(call.writer, "Cast", made, {"to": int(ir.DataType.BOOL)})


@layer_reader("ExpandDims")
def expand_dims(call: Call) -> Tensor:
    """With an axis of size 1 more."""
    rank = len(call.shape(call.x)) + 1
    return widen(call.writer, call.x, [call.writer.axis(call.whole("axis"), rank)])


def _pair(call: Call) -> list[Tensor]:
    values: list[Any] = [*call.args, *call.kwargs.values()]
    found = [value for value in values if isinstance(value, (Tensor, int, float))]
    like = next((value for value in found if isinstance(value, Tensor)), None)
    if like is None or len(found) != 2:
        raise call.refuse(f"is given {len(found)} tensors or numbers, expected 2")
    return [value if isinstance(value, Tensor) else _number(call, value, like) for value in found]


def _number(call: Call, value: float, like: Tensor) -> Tensor:
    dtype = like.value.dtype.numpy() if like.value.dtype is not None else np.dtype(np.float32)
    return Tensor(call.writer.builder.constant(value, dtype=dtype))
