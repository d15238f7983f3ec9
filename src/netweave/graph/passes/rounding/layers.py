"""Layers that read and return integers, as the layers on real numbers that they stand for.

QLinearConv, MatMulInteger and ONNX Runtime's own become the layer and a pair of nodes that rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of
from netweave.graph.passes.rewrite import has_one_reader
from netweave.graph.passes.rounding.formats import Quantiser
from netweave.graph.passes.rounding.rectifiers import rectified
from netweave.graph.passes.rounding.walk import (
    FLOAT,
    Integers,
    NotExplicitError,
    array_of,
    input_at,
    quantiser_of,
    rank_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNTIME = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""


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


def layer(walk: Integers, node: ir.Node) -> None:
    """Compute a quantised layer on real numbers, and round what it returns."""
    row = LAYERS[node.domain, node.op_type]
    quantisers = [_quantiser_at(node, at) for at in row.reads]
    inputs: list[ir.Value | None] = [
        walk.read(node, input_at(node, at), quantiser)
        for at, quantiser in zip(row.reads, quantisers, strict=True)
    ]
    bias = None if row.bias is None else input_at(node, row.bias)
    if bias is not None:
        inputs.append(walk.stored_array(bias, _bias_quantiser(*quantisers), f"{bias.name}/real"))
    settings = {name: value for name, value in attributes_of(node).items() if name not in row.dropped}
    _finish(walk, node, row.op_type, inputs, settings, at=row.returns)


def concat(walk: Integers, node: ir.Node) -> None:
    """Join quantised values of different scales, and round what that makes."""
    inputs = [
        walk.read(node, input_at(node, at), _quantiser_at(node, at)) for at in range(2, len(node.inputs), 3)
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
    if input_at(node, at) is None:
        walk.rewriter.take_over(made, real)
        return
    zero = input_at(node, at + 1)
    dtype = (zero.dtype if zero is not None else made.dtype) or ir.DataType.UINT8
    quantiser = quantiser_of(node, input_at(node, at), zero, dtype=dtype, axis=1, rank=rank_of(made))
    walk.round(node, rectified(walk, node, real, quantiser), quantiser, made)


def _quantiser_at(node: ir.Node, at: int) -> Quantiser:
    """Return what an input of a quantised layer stands for; scales of weights run along their outputs."""
    value = input_at(node, at)
    zero = input_at(node, at + 2)
    dtype = (value.dtype if value is not None else None) or (zero.dtype if zero is not None else None)
    turned = node.attributes.get("transB")
    axis = 0 if node.op_type == "QLinearConv" or (turned is not None and turned.as_int()) else -1
    dtype = dtype or ir.DataType.UINT8
    return quantiser_of(node, input_at(node, at + 1), zero, dtype=dtype, axis=axis, rank=rank_of(value))


def _bias_quantiser(data: Quantiser, weight: Quantiser) -> Quantiser:
    scale = (data.scale.reshape(-1).astype(np.float64) * weight.scale.astype(np.float64)).astype(np.float32)
    scale = scale.reshape(()) if scale.size == 1 else scale
    return Quantiser(ir.DataType.INT32, scale, np.zeros(scale.shape, np.int64))


def product(walk: Integers, node: ir.Node) -> None:
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
        node,
        scale,
        input_at(node, 3),
        dtype=weight.dtype or ir.DataType.UINT8,
        axis=axis,
        rank=rank_of(weight),
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
