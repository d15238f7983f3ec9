"""Functions of ``keras.ops`` that compare and decide, as those of masks do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import reduce
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.layers.elements import reduced_axes
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
    axes = reduced_axes(call)
    numbers = unary(call.writer, "Cast", call.x, {"to": int(ir.DataType.INT32)})
    op_type = "ReduceMax" if call.layer.type == "Any" else "ReduceMin"
    made = reduce(call.writer, op_type, numbers, axes, keep=call.flag("keepdims", False))
    return unary(call.writer, "Cast", made, {"to": int(ir.DataType.BOOL)})


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
