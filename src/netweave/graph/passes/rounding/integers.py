"""Quantised layers in a graph: arithmetic on real numbers, each rounding a pair of nodes.

Nodes that quantise and dequantise are read here; layers that read and return integers in ``layers``. To add
one: a row in ``LAYERS``, or a function in ``_RULES``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph.passes.rewriting import Rewriter, remove_unneeded
from netweave.graph.passes.rounding.layers import (
    FLOAT,
    LAYERS,
    MOVING,
    RUNTIME,
    Integers,
    NotExplicitError,
    array_of,
    concat,
    layer,
    product,
    quantiser_of,
    rank_of,
    rectified,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.graph import Graph
    from netweave.graph.passes.rounding.formats import StoredRounding


def make_real(graph: Graph) -> dict[str, StoredRounding]:
    """Let a graph of quantised layers compute on real numbers, in place; roundings are nodes of their own.

    Returns:
        How the arrays that were stored as integers were stored, by the initializer that now stands for them.

    Raises:
        NotExplicitError: Rounding and arithmetic of some layer cannot be told apart.
    """
    walk = Integers(Rewriter(graph))
    for node in list(graph.nodes):
        rule = _RULES.get((node.domain, node.op_type))
        if rule is not None:
            rule(walk, node)
        elif any(value is not None and str(value.name) in walk.real for value in node.inputs):
            _move(walk, node)
    outputs = graph.model.graph.outputs
    for index, value in enumerate(list(outputs)):
        real = walk.real.get(str(value.name))
        if real is not None:
            name, value.name = value.name, walk.rewriter.free_name(f"{value.name}/integer")
            real.name = name
            outputs[index] = real
    remove_unneeded(graph, keep=lambda node: False)
    return walk.stored


def _move(walk: Integers, node: ir.Node) -> None:
    if node.domain or node.op_type not in MOVING:
        raise NotExplicitError(f"{node.op_type} {node.name!r} works on integers")
    quantiser = next(walk.quantisers[str(v.name)] for v in node.inputs if v and str(v.name) in walk.real)
    for index, value in enumerate(node.inputs):
        if value is not None and str(value.name) in walk.real:
            node.replace_input_with(index, walk.real[str(value.name)])
    for value in node.outputs:
        value.type = ir.TensorType(FLOAT)
        walk.real[str(value.name)] = value
        walk.quantisers[str(value.name)] = quantiser


def _axis(node: ir.Node) -> int:
    axis = node.attributes.get("axis")
    return axis.as_int() if axis is not None else 1


def _quantize(walk: Integers, node: ir.Node) -> None:
    source, made = node.inputs[0], node.outputs[0]
    if source is None:
        return
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = (zero.dtype if zero is not None else made.dtype) or ir.DataType.UINT8
    rank = rank_of(source)
    quantiser = quantiser_of(node, node.inputs[1], zero, dtype=dtype, axis=_axis(node), rank=rank)
    if array_of(source) is not None:
        walk.real[str(made.name)] = walk.rounded_array(source, quantiser)
        walk.quantisers[str(made.name)] = quantiser
        return
    walk.round(node, rectified(walk, node, source, quantiser), quantiser, made)


def _dequantize(walk: Integers, node: ir.Node) -> None:
    source, made = node.inputs[0], node.outputs[0]
    if source is None:
        return
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = source.dtype or ir.DataType.UINT8
    rank = rank_of(source)
    quantiser = quantiser_of(node, node.inputs[1], zero, dtype=dtype, axis=_axis(node), rank=rank)
    name = str(source.name)
    if array_of(source) is not None and name not in walk.real:
        real = walk.stored_array(source, quantiser, str(made.name))
    else:
        real = walk.read(node, source, quantiser)
    _stand_for(walk, node, real)


def _stand_for(walk: Integers, node: ir.Node, real: ir.Value) -> None:
    """Let real numbers stand where a node's output did."""
    made = node.outputs[0]
    if made.is_graph_output() and (real.producer() is None or real.is_graph_output()):
        copy = walk.rewriter.insert(node, "Identity", [real], output=made.name)
        walk.rewriter.take_over(made, copy.outputs[0])
        return
    walk.rewriter.bypass(node, real)


def _dynamic(walk: Integers, node: ir.Node) -> None:
    """Scale and zero point come from the values themselves, and others read them: the node stays."""
    integer, scale, zero = node.outputs
    back = walk.rewriter.append(
        node, "DequantizeLinear", [integer, scale, zero], output=f"{integer.name}/real"
    )
    back.outputs[0].type = ir.TensorType(FLOAT)
    back.outputs[0].shape = integer.shape
    walk.real[str(integer.name)] = back.outputs[0]


_RULES: dict[tuple[str, str], Callable[[Integers, ir.Node], None]] = {
    ("", "QuantizeLinear"): _quantize,
    ("", "DequantizeLinear"): _dequantize,
    (RUNTIME, "QuantizeLinear"): _quantize,
    (RUNTIME, "DequantizeLinear"): _dequantize,
    ("", "DynamicQuantizeLinear"): _dynamic,
    ("", "ConvInteger"): product,
    ("", "MatMulInteger"): product,
    (RUNTIME, "QLinearConcat"): concat,
    **dict.fromkeys(LAYERS, layer),
}
