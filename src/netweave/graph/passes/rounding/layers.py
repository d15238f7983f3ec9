"""Places in a graph where values are rounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, parameter_key
from netweave.graph.parameters import tag_parameter
from netweave.graph.passes.rewriting import Rewriter, has_one_reader
from netweave.graph.passes.rounding.formats import FLOATS, Quantiser, StoredRounding

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from netweave.graph import Graph


FLOAT = ir.DataType.FLOAT


class NotExplicitError(Exception):
    """A layer whose rounding cannot be taken apart from what it computes; the message says which and why."""


@dataclass(slots=True)
class Integers:
    """A graph on its way from integers to real numbers.

    Attributes:
        rewriter: Changes the graph.
        stored: How arrays were stored, by the name of the real one.
        real: The real numbers that an integer value stands for, by its name.
        quantisers: What was rounded to, by the name of the integer value.
    """

    rewriter: Rewriter
    stored: dict[str, StoredRounding] = field(default_factory=dict)
    real: dict[str, ir.Value] = field(default_factory=dict)
    quantisers: dict[str, Quantiser] = field(default_factory=dict)

    def stored_array(self, value: ir.Value, quantiser: Quantiser, name: str) -> ir.Value:
        """Return the real numbers of a stored array of integers as an initializer."""
        integers = array_of(value)
        if integers is None:
            raise NotExplicitError(f"{value.name!r} is not a stored array")
        return self._stored(value, quantiser, integers, name)

    def rounded_array(self, value: ir.Value, quantiser: Quantiser) -> ir.Value:
        """Return what is left of a stored array of real numbers that a node quantises, as an initializer."""
        array = array_of(value)
        assert array is not None
        return self._stored(value, quantiser, quantiser.quantised(array), f"{value.name}/rounded")

    def _stored(self, value: ir.Value, quantiser: Quantiser, integers: np.ndarray, name: str) -> ir.Value:
        real = ir.Tensor(quantiser.dequantised(integers).astype(np.float32))
        made = self.rewriter.initializer(real, name)
        key = parameter_key(value)
        if key is not None:
            tag_parameter(made, key)
        self.stored[str(made.name)] = StoredRounding(quantiser.dtype, quantiser, integers)
        return made

    def read(self, node: ir.Node, value: ir.Value | None, quantiser: Quantiser) -> ir.Value:
        """Return the real numbers of what a node reads as integers."""
        if value is None:
            raise NotExplicitError(f"{node.op_type} {node.name!r} lacks an input")
        name = str(value.name)
        if value.is_graph_input() and name not in self.real:
            self._open_input(value, quantiser)
        if name in self.real:
            self._read_by(self.real[name], quantiser)
            return self.real[name]
        if array_of(value) is not None:
            return self.stored_array(value, quantiser, f"{name}/real")
        raise NotExplicitError(f"{node.op_type} {node.name!r} reads {name!r}, which no layer here quantised")

    def round(self, node: ir.Node, real: ir.Value, quantiser: Quantiser, integer: ir.Value) -> None:
        """Round real numbers before ``node``; they stand for an integer value from then on."""
        self.real[str(integer.name)] = self.rounded(node, real, quantiser)
        self.quantisers[str(integer.name)] = quantiser

    def rounded(self, node: ir.Node, real: ir.Value, quantiser: Quantiser) -> ir.Value:
        """Return real numbers after a pair of rounding nodes, which are put before ``node``."""
        scale = self.rewriter.initializer(ir.Tensor(quantiser.scale), f"{real.name}/scale")
        zeros = np.asarray(quantiser.zero_point).astype(quantiser.dtype.numpy())
        zero = self.rewriter.initializer(ir.Tensor(zeros), f"{real.name}/zero_point")
        settings = {"axis": quantiser.axis, "block_size": quantiser.block_size}
        if quantiser.is_per_tensor:
            settings = {}
        there = self.rewriter.insert(node, "QuantizeLinear", [real, scale, zero], settings)
        pair = [there.outputs[0], scale, zero]
        back = self.rewriter.insert(node, "DequantizeLinear", pair, settings, output=f"{real.name}/rounded")
        there.outputs[0].type, back.outputs[0].type = ir.TensorType(quantiser.dtype), ir.TensorType(FLOAT)
        there.outputs[0].shape = back.outputs[0].shape = real.shape
        return back.outputs[0]

    def _read_by(self, real: ir.Value, quantiser: Quantiser) -> None:
        """Let integers be read by the scale of their reader, which may be another than their maker's."""
        back = real.producer()
        if back is None or back.op_type != "DequantizeLinear":
            return
        scale, zero = (array_of(value) for value in back.inputs[1:3])
        if scale is None or zero is None or scale.shape != quantiser.scale.shape:
            return
        if np.array_equal(scale, quantiser.scale) and np.array_equal(zero, quantiser.zero_point):
            return
        for index, array in ((1, quantiser.scale), (2, quantiser.zero_point.astype(zero.dtype))):
            value = self.rewriter.initializer(ir.Tensor(array), f"{real.name}/read")
            back.replace_input_with(index, value)

    def _open_input(self, value: ir.Value, quantiser: Quantiser) -> None:
        """Let an input of integers be one of real numbers."""
        readers = {node for node, _ in value.uses()}
        first = next(node for node in self.rewriter.graph.nodes if node in readers)
        value.type = ir.TensorType(FLOAT)
        self.round(first, value, quantiser, value)


def array_of(value: ir.Value | None) -> np.ndarray | None:
    """Return a stored array; None for a value that is computed."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def rank_of(value: ir.Value | None) -> int:
    """Return the number of axes of a value; 0 if it is not known."""
    array = array_of(value)
    if array is not None:
        return array.ndim
    return len(value.shape) if value is not None and value.shape is not None else 0


def input_at(node: ir.Node, at: int) -> ir.Value | None:
    """Return an input of a node; None for one that is left out."""
    return node.inputs[at] if at < len(node.inputs) else None


def quantiser_of(
    node: ir.Node, scale: ir.Value | None, zero: ir.Value | None, *, dtype: ir.DataType, axis: int, rank: int
) -> Quantiser:
    """Return what a node quantises by.

    Raises:
        NotExplicitError: The scale or the zero point is computed.
    """
    scales, zeros = array_of(scale), array_of(zero)
    if scales is None or (zero is not None and zeros is None):
        raise NotExplicitError(f"{node.op_type} {node.name!r} computes its scale or zero point")
    if zeros is None:
        zeros = np.zeros(np.shape(scales), np.int64)
    blocks = node.attributes.get("block_size")
    block_size = blocks.as_int() if blocks is not None else 0
    return Quantiser(
        dtype,
        np.asarray(scales, np.float32),
        np.asarray(zeros).astype(np.int64),
        axis % rank if rank else 0,
        block_size,
    )


@dataclass(frozen=True, slots=True, eq=False)
class RoundingPoint:
    """A place where numbers are rounded.

    Attributes:
        there: The node that rounds: a QuantizeLinear, a DynamicQuantizeLinear or a Cast.
        backs: The nodes that bring what it returns back to float32.
        dtype: What it rounds to.
        quantiser: How integers are made; None for floating-point formats and for ranges found at run time.
        read_as: How they are read back, which should be the same.
    """

    there: ir.Node
    backs: tuple[ir.Node, ...]
    dtype: ir.DataType
    quantiser: Quantiser | None = None
    read_as: Quantiser | None = None

    @property
    def value(self) -> ir.Value:
        """The value that is rounded."""
        value = self.there.inputs[0]
        assert value is not None
        return value


def rounding_points(graph: Graph) -> list[RoundingPoint]:
    """Return the places where a graph with explicit rounding rounds, in topological order."""
    points = []
    for node in graph.nodes:
        point = _point(node) if node.domain == "" else None
        if point is not None:
            points.append(point)
    return points


def _point(node: ir.Node) -> RoundingPoint | None:
    made = node.outputs[0]
    backs = tuple(dict.fromkeys(reader for reader, _ in made.uses()))
    if node.op_type == "Cast":
        dtype = ir.DataType(node.attributes["to"].as_int())
        return RoundingPoint(node, backs, dtype) if dtype in FLOATS and backs else None
    if node.op_type == "DynamicQuantizeLinear":
        backs = tuple(back for back in backs if back.op_type == "DequantizeLinear")
        return RoundingPoint(node, backs, ir.DataType.UINT8)
    if node.op_type != "QuantizeLinear" or not backs:
        return None
    dtype = made.dtype or ir.DataType.UINT8
    return RoundingPoint(node, backs, dtype, _quantiser(node, dtype), _quantiser(backs[0], dtype))


def _quantiser(node: ir.Node, dtype: ir.DataType) -> Quantiser | None:
    scale, zero = (array_of(value) for value in node.inputs[1:3])
    if scale is None or zero is None:
        return None
    axis, block = node.attributes.get_int("axis", 1), node.attributes.get_int("block_size", 0)
    rank = len(node.inputs[0].shape or ()) if node.inputs[0] is not None else 0
    return Quantiser(dtype, scale, zero.astype("int64"), axis % rank if rank else max(axis, 0), block)


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


# QLinearConv, MatMulInteger and ONNX Runtime's own become the layer and a pair of nodes that rounds.

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
