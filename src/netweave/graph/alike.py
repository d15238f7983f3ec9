"""Nodes that are alike: of the same operator, with the same settings, on inputs of the same sizes.

A large net repeats the same few blocks hundreds of times. What is known of a node then holds for all nodes
like it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Hashable

SETTLED = frozenset(
    {
        "Abs", "Add", "AveragePool", "BatchNormalization", "Concat", "Conv", "ConvTranspose", "Div", "Elu",
        "Exp", "Flatten", "Gelu", "Gemm", "GlobalAveragePool", "GlobalMaxPool", "HardSigmoid", "HardSwish",
        "LRN", "LayerNormalization", "LeakyRelu", "Log", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg",
        "PRelu", "Pow", "Relu", "Selu", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Sub", "Sum", "Tanh",
        "Transpose",
    }
)  # fmt: skip
"""Operators whose output sizes follow from attributes and from the sizes, not the values, of inputs."""

_FLOATS = frozenset(
    {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}
)  # of whole numbers the values are followed as well: they may become somebody's sizes


@dataclass(frozen=True, slots=True)
class Output:
    """Known properties of a node's only output."""

    shape: ir.Shape
    dtype: ir.DataType | None


def likeness(node: ir.Node) -> Hashable:
    """Return what a node has in common with those like it; None if its sizes follow from more than that."""
    if node.domain or node.op_type not in SETTLED or len(node.outputs) != 1:
        return None
    inputs: list[Hashable] = []
    for value in node.inputs:
        if value is None:
            inputs.append(None)
        elif value.shape is None or value.dtype not in _FLOATS:
            return None
        else:
            inputs.append((value.dtype, dims_of(value.shape)))
    settings = tuple([(name, attribute.value) for name, attribute in node.attributes.items()])
    return node.op_type, tuple(inputs), settings


def dims_of(shape: ir.Shape) -> tuple[int | str | None, ...]:
    """Return the sizes of a shape, with the symbol of each that is open."""
    return tuple([dim if isinstance(dim, int) else dim.value for dim in shape])


def output_of(node: ir.Node) -> Output | None:
    """Return what is known of a node's output; None if that is not the same for all nodes like it.

    A symbol that no input has may have been made for this node alone.
    """
    shape = node.outputs[0].shape
    if shape is None:
        return None
    given = {
        dim for value in node.inputs if value is not None and value.shape for dim in dims_of(value.shape)
    }
    if None in given or not all(isinstance(dim, int) or dim in given for dim in dims_of(shape)):
        return None
    return Output(shape.copy(frozen=True), node.outputs[0].dtype)
