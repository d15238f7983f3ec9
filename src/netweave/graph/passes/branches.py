"""Grouped convolutions that are written as branches, as by frameworks that have none.

The channels are cut, each piece has a convolution of its own, and the results are joined again; biases,
normalisations and activations stand in each branch, or behind the concatenation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.graph import attributes_of, known_shape, layer_keys, set_layer_keys
from netweave.graph.passes.pieces import Piece, axis_of
from netweave.graph.passes.rewrite import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph

FILTERS = frozenset({"Conv", "ConvTranspose"})

_PER_CHANNEL = frozenset({"Add", "Div", "Mul", "PRelu", "Sub"})
"""Operators whose second operand may have one number for each channel."""

_BY_ITSELF = frozenset(
    {
        "AveragePool", "Celu", "Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "MaxPool",
        "Mish", "Neg", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip
"""Operators that do the same to each channel, whatever the others hold."""


@Pass
def join_branches(graph: Graph) -> None:
    """Make one grouped convolution of convolutions over all pieces of a value's channels, joined in order.

    The branches must be alike but for what they store. Nodes between the convolutions and the concatenation
    stand behind the grouped one, once. Stored arrays are joined by nodes, which ``fold`` computes. The new
    nodes belong to the layers of all branches.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        rows = _rows(node) if (node.domain, node.op_type) == ("", "Concat") and axis_of(node) == 1 else []
        if rows:
            _join(rewriter, node, rows)


@dataclass(frozen=True, slots=True)
class _Operand:
    """The operand of the nodes of a row at one position, besides the values of the branches.

    Attributes:
        values: The operand of each branch.
        axis: The axis that they are joined along; None if all branches share the first.
    """

    values: Sequence[ir.Value | None]
    axis: int | None = None

    @classmethod
    def of(cls, nodes: Sequence[ir.Node], index: int, place: int) -> _Operand | None:
        """Return the operands at a position; None if one node cannot do with them what several do."""
        values = [node.inputs[index] for node in nodes]
        axis = channel_axis(nodes[0], index, place)
        shapes = {known_shape(value) for value in values}
        if axis is not None and len(shapes) == 1 and None not in (shapes.pop() or [None]):
            return cls(values, axis)
        return cls(values) if all(_is_same(value, values[0]) for value in values) else None


@dataclass(frozen=True, slots=True)
class _Row:
    """The nodes at one place of all branches, in the order of the branches.

    Attributes:
        nodes: One node of each branch.
        place: Position among its inputs of the value that comes along the branch.
        operands: Its other inputs, by position.
    """

    nodes: Sequence[ir.Node]
    place: int
    operands: dict[int, _Operand]

    @property
    def values(self) -> list[ir.Value | None]:
        """The values of the branches."""
        return [node.inputs[self.place] for node in self.nodes]

    @classmethod
    def before(cls, values: Sequence[ir.Value | None]) -> _Row | None:
        """Return the nodes that make these values, if one node can stand for all of them."""
        nodes = [node for value in values if (node := _only_maker(value)) is not None]
        if len(nodes) < len(values) or len({_kind(node) for node in nodes}) > 1:
            return None
        place = branch_input(nodes[0])
        if place is None or any(attributes_of(node) != attributes_of(nodes[0]) for node in nodes):
            return None
        operands = {}
        for index in range(len(nodes[0].inputs)):
            operand = _Operand.of(nodes, index, place) if index != place else None
            if operand is not None:
                operands[index] = operand
            elif index != place:
                return None
        return cls(nodes, place, operands)


def _only_maker(value: ir.Value | None) -> ir.Node | None:
    """Return the node that makes a value and nothing else that anybody reads, if it has one reader."""
    node = value.producer() if value is not None and has_one_reader(value) else None
    if node is None or node.domain or node.outputs[0] is not value:
        return None
    return None if any(other.uses() or other.is_graph_output() for other in node.outputs[1:]) else node


def _kind(node: ir.Node) -> tuple[str, int, int | None]:
    return node.op_type, len(node.inputs), branch_input(node)


def branch_input(node: ir.Node) -> int | None:
    """Return which input of a node comes along a branch; None if the node mixes channels."""
    if node.op_type not in _PER_CHANNEL:
        return 0 if node.op_type in FILTERS | _BY_ITSELF | {"BatchNormalization"} else None
    open_ = [index for index, value in enumerate(node.inputs) if value is None or value.const_value is None]
    return open_[0] if len(open_) == 1 else None


def channel_axis(node: ir.Node, index: int, place: int) -> int | None:
    """Return the axis of an operand along which it has something for each channel that the node makes."""
    if node.op_type in FILTERS or node.op_type == "BatchNormalization":
        return 0
    shape, made = known_shape(node.inputs[index]), known_shape(node.inputs[place])
    axis = len(shape) - len(made) + 1 if shape and made else -1
    if node.op_type not in _PER_CHANNEL or not shape or not made or axis < 0:
        return None
    rest = {size for other, size in enumerate(shape) if other != axis}
    return axis if rest <= {1} and shape[axis] == made[1] else None


def _is_same(value: ir.Value | None, other: ir.Value | None) -> bool:
    """Return whether two operands are one value, or equal stored numbers."""
    if value is None or other is None or value is other:
        return value is other
    stored = [v.const_value for v in (value, other) if v.const_value is not None and v.const_value.size == 1]
    return len(stored) == 2 and bool(stored[0].numpy().item() == stored[1].numpy().item())


def _rows(concat: ir.Node) -> list[_Row]:
    """Return the rows from the convolutions to a concatenation; none if they are no grouped convolution."""
    rows: list[_Row] = []
    row = _Row.before(concat.inputs)
    while row is not None:
        rows.insert(0, row)
        if row.nodes[0].op_type in FILTERS:
            return rows if len(row.nodes) > 1 and _source(row) is not None else []
        row = _Row.before(row.values)
    return []


def _source(row: _Row) -> ir.Value | None:
    """Return the value whose channels a row's nodes read: equally many each, in order, all together."""
    pieces = [Piece.of(value, 1) for value in row.values if value is not None]
    source, size = pieces[0].source, pieces[0].end
    shape = known_shape(source) if source is not None else None
    if shape is None or shape[1] != size * len(row.nodes):
        return None
    spans = [(number * size, (number + 1) * size) for number in range(len(row.nodes))]
    in_order = [(piece.begin, piece.end) for piece in pieces] == spans
    return source if in_order and all(piece.source is source for piece in pieces) else None


def _join(rewriter: Rewriter, concat: ir.Node, rows: Sequence[_Row]) -> None:
    """Put one node in the place of each row, and remove the branches."""
    value = _source(rows[0])
    cuts = list(dict.fromkeys(node for piece in rows[0].values if piece and (node := piece.producer())))
    doomed = [concat, *(node for row in reversed(rows) for node in row.nodes), *cuts]
    for row in rows:
        node = _joined(rewriter, concat, row, value)
        parts = [*(cuts if row is rows[0] else []), *row.nodes, *([concat] if row is rows[-1] else [])]
        set_layer_keys(node, [key for part in parts for key in layer_keys(part)])
        value = node.outputs[0]
    assert value is not None
    rewriter.take_over(concat.outputs[0], value)
    for old in doomed:
        if not any(made.uses() or made.is_graph_output() for made in old.outputs):
            rewriter.graph.model.graph.remove(old, safe=True)


def _joined(rewriter: Rewriter, concat: ir.Node, row: _Row, value: ir.Value | None) -> ir.Node:
    """Return one node for all of a row."""
    first = row.nodes[0]
    inputs = list(first.inputs)
    inputs[row.place] = value
    for index, operand in row.operands.items():
        if operand.axis is not None:
            inputs[index] = _concatenated(rewriter, concat, operand.values, operand.axis)
    attributes = attributes_of(first)
    if first.op_type in FILTERS:
        attributes["group"] = len(row.nodes) * attributes.get("group", 1)
    node = rewriter.insert(concat, first.op_type, inputs, attributes)
    _widen(node.outputs[0], first.outputs[0], 1, len(row.nodes))
    return node


def _concatenated(
    rewriter: Rewriter, before: ir.Node, values: Sequence[ir.Value | None], axis: int
) -> ir.Value | None:
    first, last = values[0], values[-1]
    if first is None or last is None:
        return None
    node = rewriter.insert(before, "Concat", values, {"axis": axis}, output=f"{first.name}..{last.name}")
    _widen(node.outputs[0], first, axis, len(values))
    return node.outputs[0]


def _widen(value: ir.Value, like: ir.Value, axis: int, times: int) -> None:
    """Give a value the type and the shape of another, but for an axis that is so many times as long."""
    value.type = like.type
    if like.shape is not None:
        sizes = [x * times if i == axis and isinstance(x, int) else x for i, x in enumerate(like.shape)]
        value.shape = ir.Shape(sizes)
