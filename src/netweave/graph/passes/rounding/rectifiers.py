"""Rectifiers that a quantiser took away: the range of what it rounds to says that there was one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.passes.rewrite import Rewriter
from netweave.graph.passes.rounding.walk import FLOAT, Integers, array_of, input_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph
    from netweave.graph.passes.rounding.formats import Quantiser

MOVING = frozenset(
    {
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that work on integers as on the real numbers they stand for."""

_POSITIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"})

_KEEPING_SIGN = (MOVING - {"Concat"}) | {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"}

_JOINING_SIGNS = frozenset({"Add", "Concat", "Max", "Mul"})
"""Operators whose result is positive where all of their operands are."""

RELU6 = 6.0

_FROM_RANGE = "netweave.rectifier_from_range"
"""Marks a rectifier that no node of the file says."""


def rectified(walk: Integers, node: ir.Node, real: ir.Value, quantiser: Quantiser) -> ir.Value:
    """Return values as the range of a quantiser cuts them, where that is a rectifier.

    Quantisers take a Relu or Relu6 away where the range that follows begins at zero: what lies below is cut
    off there. Which of them it was cannot be seen if the values never came near 6, so the node is marked, and
    ``choose_rectifiers`` may take what another net has there. An input of the net is left as it is.
    """
    low, high = quantiser.range
    if low != 0 or is_positive(real):
        return real
    if abs(high - RELU6) <= float(quantiser.scale.max()):
        bounds = [
            walk.rewriter.initializer(ir.Tensor(np.asarray(bound, np.float32)), f"{real.name}/bound")
            for bound in (0.0, RELU6)
        ]
        made = walk.rewriter.insert(node, "Clip", [real, *bounds], output=f"{real.name}/rectified")
    else:
        made = walk.rewriter.insert(node, "Relu", [real], output=f"{real.name}/rectified")
    made.metadata_props[_FROM_RANGE] = "1"
    made.outputs[0].type, made.outputs[0].shape = ir.TensorType(FLOAT), real.shape
    return made.outputs[0]


def is_positive(value: ir.Value | None) -> bool:
    """Return whether no element of a value can be below zero, or it is an input of the net or stored."""
    if value is None or value.producer() is None:
        return True
    maker = value.producer()
    if maker is None or maker.op_type in _POSITIVE:
        return True
    if maker.op_type == "Clip":
        bound = array_of(input_at(maker, 1))
        return bound is not None and float(bound) >= 0
    if maker.op_type == "DequantizeLinear":  # of values that were rounded before
        there = maker.inputs[0].producer() if maker.inputs[0] is not None else None
        return there is not None and is_positive(there.inputs[0])
    if maker.op_type in _JOINING_SIGNS:
        return all(_is_not_negative(operand) for operand in maker.inputs)
    return maker.op_type in _KEEPING_SIGN and is_positive(maker.inputs[0])


def _is_not_negative(operand: ir.Value | None) -> bool:
    """Return whether an operand cannot be negative.

    The values of a stored operand are checked; an input may be negative.
    """
    array = array_of(operand)
    if array is not None:
        return bool((array >= 0).all())
    return operand is not None and operand.producer() is not None and is_positive(operand)


def choose_rectifiers(graph: Graph, rectifier_behind: Callable[[ir.Node], ir.Node | None]) -> None:
    """Let rectifiers that only a range speaks of be those that another net has there, in place.

    Args:
        graph: A graph of real numbers, with its roundings or without.
        rectifier_behind: Gives the other net's rectifier behind what it has for a product of this one.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        maker = product_before(node) if node.metadata_props.get(_FROM_RANGE) else None
        other = rectifier_behind(maker) if maker is not None else None
        if other is None or node.inputs[0] is None:
            continue
        bounds = [array_of(value) for value in other.inputs[1:]]
        stored = [
            None if bound is None else rewriter.initializer(ir.Tensor(bound), f"{node.name}/bound")
            for bound in bounds
        ]
        rewriter.replace([node], other.op_type, [node.inputs[0], *stored], {})


_BETWEEN = frozenset({"Add", "BatchNormalization", "DequantizeLinear", "Identity", "Mul", "QuantizeLinear"})
"""Operators that may stand between a product and its rectifier."""

_PRODUCTS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})


def product_before(rectifier: ir.Node) -> ir.Node | None:
    """Return the product whose values a rectifier cuts."""
    value = rectifier.inputs[0]
    while value is not None and (node := value.producer()) is not None and not node.domain:
        if node.op_type in _PRODUCTS:
            return node
        if node.op_type not in _BETWEEN:
            return None
        value = node.inputs[0]
    return None


def rectifier_after(product: ir.Node) -> ir.Node | None:
    """Return the Relu, or the Clip with stored bounds, that alone reads what a product makes."""
    value = product.outputs[0]
    while True:
        readers = {use.node for use in value.uses()}
        node = next(iter(readers)) if len(readers) == 1 else None
        if node is None or node.domain:
            return None
        if node.op_type == "Relu" or (node.op_type == "Clip" and None not in map(array_of, node.inputs[1:])):
            return node
        if node.op_type not in _BETWEEN:
            return None
        value = node.outputs[0]
