"""Quantised layers in a graph: arithmetic on real numbers, each rounding a pair of nodes.

Layers that read and return integers (QLinearConv, MatMulInteger, ONNX Runtime's own) become the layer on real
numbers that they stand for. To add one: a row in ``LAYERS``, or a function in ``_RULES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of
from netweave.passes.rewrite import Rewriter, has_one_reader, remove_unneeded
from netweave.passes.rounding.formats import Quantiser
from netweave.passes.rounding.walk import FLOAT, Integers, NotExplicitError, array_of, quantiser_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.graph import Graph
    from netweave.passes.rounding.formats import StoredRounding

RUNTIME = "com.microsoft"

MOVING = frozenset(
    {
        "Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Reshape", "Slice",
        "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
    }
)  # fmt: skip
"""Operators that work on integers as on the real numbers they stand for."""


@dataclass(frozen=True, slots=True)
class QuantisedLayer:
    """A layer that reads and returns integers, and the layer on real numbers that it stands for.

    Attributes:
        op_type: The layer on real numbers.
        reads: Position of each input; its scale and zero point follow it.
        returns: Position of the scale of the output; its zero point follows.
        bias: Position of a bias, whose scale is the product of the scales of the first two inputs.
        dropped: Attributes that the layer on real numbers does not have.
    """

    op_type: str
    reads: tuple[int, ...]
    returns: int
    bias: int | None = None
    dropped: frozenset[str] = frozenset({"channels_last"})


LAYERS = {
    ("", "QLinearConv"): QuantisedLayer("Conv", (0, 3), 6, bias=8),
    ("", "QLinearMatMul"): QuantisedLayer("MatMul", (0, 3), 6),
    (RUNTIME, "QGemm"): QuantisedLayer("Gemm", (0, 3), 7, bias=6),
    (RUNTIME, "QLinearAdd"): QuantisedLayer("Add", (0, 3), 6),
    (RUNTIME, "QLinearMul"): QuantisedLayer("Mul", (0, 3), 6),
    (RUNTIME, "QLinearAveragePool"): QuantisedLayer("AveragePool", (0,), 3),
    (RUNTIME, "QLinearGlobalAveragePool"): QuantisedLayer("GlobalAveragePool", (0,), 3),
    (RUNTIME, "QLinearLeakyRelu"): QuantisedLayer("LeakyRelu", (0,), 3),
    (RUNTIME, "QLinearSigmoid"): QuantisedLayer("Sigmoid", (0,), 3),
    (RUNTIME, "QLinearSoftmax"): QuantisedLayer("Softmax", (0,), 3, dropped=frozenset({"opset"})),
}
"""Quantised layers by domain and operator (ONNX, and ONNX Runtime's contributed operators)."""


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


# Single operators.


def _axis(node: ir.Node) -> int:
    axis = node.attributes.get("axis")
    return axis.as_int() if axis is not None else 1


def _rank(value: ir.Value | None) -> int:
    array = array_of(value)
    if array is not None:
        return array.ndim
    return len(value.shape) if value is not None and value.shape is not None else 0


def _quantize(walk: Integers, node: ir.Node) -> None:
    source, made = node.inputs[0], node.outputs[0]
    if source is None:
        return
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = (zero.dtype if zero is not None else made.dtype) or ir.DataType.UINT8
    rank = _rank(source)
    quantiser = quantiser_of(node, node.inputs[1], zero, dtype=dtype, axis=_axis(node), rank=rank)
    if array_of(source) is not None:
        walk.real[str(made.name)] = walk.rounded_array(source, quantiser)
        walk.quantisers[str(made.name)] = quantiser
        return
    walk.round(node, _rectified(walk, node, source, quantiser), quantiser, made)


def _dequantize(walk: Integers, node: ir.Node) -> None:
    source, made = node.inputs[0], node.outputs[0]
    if source is None:
        return
    zero = node.inputs[2] if len(node.inputs) > 2 else None
    dtype = source.dtype or ir.DataType.UINT8
    rank = _rank(source)
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


def _layer(walk: Integers, node: ir.Node) -> None:
    """Compute a quantised layer on real numbers, and round what it returns."""
    row = LAYERS[node.domain, node.op_type]
    quantisers = [_quantiser_at(node, at) for at in row.reads]
    inputs: list[ir.Value | None] = [
        walk.read(node, _input(node, at), quantiser)
        for at, quantiser in zip(row.reads, quantisers, strict=True)
    ]
    bias = None if row.bias is None else _input(node, row.bias)
    if bias is not None:
        inputs.append(walk.stored_array(bias, _bias_quantiser(*quantisers), f"{bias.name}/real"))
    settings = {name: value for name, value in attributes_of(node).items() if name not in row.dropped}
    _finish(walk, node, row.op_type, inputs, settings, at=row.returns)


def _concat(walk: Integers, node: ir.Node) -> None:
    inputs = [
        walk.read(node, _input(node, at), _quantiser_at(node, at)) for at in range(2, len(node.inputs), 3)
    ]
    _finish(walk, node, "Concat", inputs, attributes_of(node), at=0)


def _finish(
    walk: Integers,
    node: ir.Node,
    op_type: str,
    inputs: Sequence[ir.Value | None],
    settings: dict[str, Any],
    *,
    at: int,
) -> None:
    """Put the layer on real numbers before a quantised one, and round what it returns.

    Args:
        walk: The graph.
        node: The quantised layer.
        op_type: The layer on real numbers.
        inputs: What that reads.
        settings: Its attributes.
        at: Position of the scale of the output; without one, real numbers are returned.
    """
    made = node.outputs[0]
    real = walk.rewriter.insert(node, op_type, inputs, settings, output=f"{made.name}/real").outputs[0]
    real.type, real.shape = ir.TensorType(FLOAT), made.shape
    if _input(node, at) is None:
        walk.rewriter.take_over(made, real)
        return
    zero = _input(node, at + 1)
    dtype = (zero.dtype if zero is not None else made.dtype) or ir.DataType.UINT8
    quantiser = quantiser_of(node, _input(node, at), zero, dtype=dtype, axis=1, rank=_rank(made))
    walk.round(node, _rectified(walk, node, real, quantiser), quantiser, made)


def _input(node: ir.Node, at: int) -> ir.Value | None:
    return node.inputs[at] if at < len(node.inputs) else None


def _quantiser_at(node: ir.Node, at: int) -> Quantiser:
    """Return what an input of a quantised layer stands for; scales of weights run along their outputs."""
    value = _input(node, at)
    zero = _input(node, at + 2)
    dtype = (value.dtype if value is not None else None) or (zero.dtype if zero is not None else None)
    turned = node.attributes.get("transB")
    axis = 0 if node.op_type == "QLinearConv" or (turned is not None and turned.as_int()) else -1
    dtype = dtype or ir.DataType.UINT8
    return quantiser_of(node, _input(node, at + 1), zero, dtype=dtype, axis=axis, rank=_rank(value))


def _bias_quantiser(data: Quantiser, weight: Quantiser) -> Quantiser:
    scale = (data.scale.reshape(-1).astype(np.float64) * weight.scale.astype(np.float64)).astype(np.float32)
    scale = scale.reshape(()) if scale.size == 1 else scale
    return Quantiser(ir.DataType.INT32, scale, np.zeros(scale.shape, np.int64))


_POSITIVE = frozenset({"Abs", "Exp", "HardSigmoid", "Relu", "Sigmoid", "Softmax", "Softplus"})

_KEEPING_SIGN = MOVING | {"AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"}

RELU6 = 6.0


def _rectified(walk: Integers, node: ir.Node, real: ir.Value, quantiser: Quantiser) -> ir.Value:
    """Return values as the range of a quantiser cuts them, where that is a rectifier.

    Quantisers take a Relu or Relu6 away where the range that follows begins at zero: what lies below is cut
    off there. An input of the net is left as it is.
    """
    low, high = quantiser.range
    if low != 0 or _is_positive(real):
        return real
    if abs(high - RELU6) <= float(quantiser.scale.max()):
        bounds = [
            walk.rewriter.initializer(ir.Tensor(np.asarray(bound, np.float32)), f"{real.name}/bound")
            for bound in (0.0, RELU6)
        ]
        made = walk.rewriter.insert(node, "Clip", [real, *bounds], output=f"{real.name}/rectified")
    else:
        made = walk.rewriter.insert(node, "Relu", [real], output=f"{real.name}/rectified")
    made.outputs[0].type, made.outputs[0].shape = ir.TensorType(FLOAT), real.shape
    return made.outputs[0]


def _is_positive(value: ir.Value | None) -> bool:
    """Whether no element of a value can be below zero, or it is an input of the net or stored."""
    if value is None or value.producer() is None:
        return True
    maker = value.producer()
    if maker is None or maker.op_type in _POSITIVE:
        return True
    if maker.op_type == "Clip":
        bound = array_of(_input(maker, 1))
        return bound is not None and float(bound) >= 0
    if maker.op_type == "DequantizeLinear":  # of values that were rounded before
        there = maker.inputs[0].producer() if maker.inputs[0] is not None else None
        return there is not None and _is_positive(there.inputs[0])
    return maker.op_type in _KEEPING_SIGN and _is_positive(maker.inputs[0])


def _product(walk: Integers, node: ir.Node) -> None:
    """Compute ConvInteger or MatMulInteger of a dynamically quantised input on real numbers.

    What follows is a Cast and a Mul with the scales; and an Add of the bias, which may stay where it is.
    """
    data, weight = node.inputs[:2]
    cast = _only_reader(node.outputs[0], "Cast")
    scaling = _only_reader(cast.outputs[0], "Mul") if cast is not None else None
    back = walk.real.get(str(data.name)) if data is not None else None
    pair = back.producer() if back is not None else None
    if scaling is None or cast is None or back is None or pair is None or weight is None:
        raise NotExplicitError(
            f"{node.op_type} {node.name!r} is not followed by a Cast and a Mul with its scales"
        )
    factor = next((v for v in scaling.inputs if v is not cast.outputs[0]), None)
    scale = _stored_factor(factor, pair.inputs[1])
    if scale is None:
        raise NotExplicitError(f"{node.op_type} {node.name!r} is multiplied by something besides its scales")
    axis = 0 if node.op_type == "ConvInteger" else -1
    quantiser = quantiser_of(
        node, scale, _input(node, 3), dtype=weight.dtype or ir.DataType.UINT8, axis=axis, rank=_rank(weight)
    )
    real = walk.stored_array(weight, quantiser, f"{weight.name}/real")
    new = walk.rewriter.insert(
        scaling, node.op_type.removesuffix("Integer"), [back, real], attributes_of(node)
    ).outputs[0]
    walk.rewriter.take_over(scaling.outputs[0], new)


def _only_reader(value: ir.Value, op_type: str) -> ir.Node | None:
    if not has_one_reader(value):
        return None
    (reader,) = (node for node, _ in value.uses())
    return reader if reader.op_type == op_type else None


def _stored_factor(factor: ir.Value | None, data_scale: ir.Value | None) -> ir.Value | None:
    """Return the scale of the weights of a product with the scale of the data."""
    maker = factor.producer() if factor is not None else None
    if maker is None or maker.op_type != "Mul" or data_scale not in maker.inputs:
        return None
    return next(
        (value for value in maker.inputs if value is not data_scale and array_of(value) is not None), None
    )


_RULES: dict[tuple[str, str], Callable[[Integers, ir.Node], None]] = {
    ("", "QuantizeLinear"): _quantize,
    ("", "DequantizeLinear"): _dequantize,
    (RUNTIME, "QuantizeLinear"): _quantize,
    (RUNTIME, "DequantizeLinear"): _dequantize,
    ("", "DynamicQuantizeLinear"): _dynamic,
    ("", "ConvInteger"): _product,
    ("", "MatMulInteger"): _product,
    (RUNTIME, "QLinearConcat"): _concat,
    **dict.fromkeys(LAYERS, _layer),
}
