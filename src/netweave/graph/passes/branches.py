"""Branches: joins, splits, crops and sums."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, known_shape, layer_keys, set_layer_keys
from netweave.graph.passes.extraction import Piece, axis_of
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.graph import Graph


# The channels are cut, each piece has a convolution of its own, and the results are joined again; biases,
# normalisations and activations stand in each branch, or behind the concatenation.

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
        node = _joined_branches(rewriter, concat, row, value)
        parts = [*(cuts if row is rows[0] else []), *row.nodes, *([concat] if row is rows[-1] else [])]
        set_layer_keys(node, [key for part in parts for key in layer_keys(part)])
        value = node.outputs[0]
    assert value is not None
    rewriter.take_over(concat.outputs[0], value)
    for old in doomed:
        if not any(made.uses() or made.is_graph_output() for made in old.outputs):
            rewriter.graph.model.graph.remove(old, safe=True)


def _joined_branches(rewriter: Rewriter, concat: ir.Node, row: _Row, value: ir.Value | None) -> ir.Node:
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


@Pass
def remove_concats(graph: Graph) -> None:
    """Remove concatenations that can be said without.

    - One that only another concatenation along the same axis reads becomes part of that.
    - Neighbouring pieces of a value, cut by Split or Slice, that are joined again in order are that value, or
      one larger piece of it.
    - One of a single value is that value; its name is an alias.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Concat"):
            _simplify(rewriter, _flattened(rewriter, node))


@Pass
def flatten_concats(graph: Graph) -> None:
    """Let a concatenation read what another one reads along the same axis, instead of what that makes.

    The other one becomes part of it if nothing else reads it. Then it does not matter whether a net joins all
    branches at once or one after the other.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Concat"):
            flat = _flattened(rewriter, node)
            axis = axis_of(flat)
            values = [read for value in flat.inputs for read in _read_by(value, axis)]
            if axis is not None and len(values) > len(flat.inputs):
                rewriter.replace([flat], "Concat", values, {"axis": axis})


def _read_by(value: ir.Value | None, axis: int | None) -> Sequence[ir.Value | None]:
    """Return what a value is joined of along an axis: itself, if no concatenation along the axis makes it."""
    maker = value.producer() if value is not None else None
    is_joined = (
        maker is not None and (maker.domain, maker.op_type) == ("", "Concat") and axis_of(maker) == axis
    )
    return maker.inputs if maker is not None and is_joined else [value]


def _flattened(rewriter: Rewriter, node: ir.Node) -> ir.Node:
    """Take the concatenations in that only this one reads."""
    axis = axis_of(node)
    inner = [
        maker
        for value in node.inputs
        if value is not None and has_one_reader(value) and (maker := value.producer()) is not None
        if (maker.domain, maker.op_type) == ("", "Concat") and axis_of(maker) == axis
    ]
    if axis is None or not inner:
        return node
    inputs: list[ir.Value | None] = []
    for value in node.inputs:
        maker = value.producer() if value is not None else None
        inputs.extend(maker.inputs if maker in inner and maker is not None else [value])
    return rewriter.replace([*inner, node], "Concat", inputs, {"axis": axis})


def _simplify(rewriter: Rewriter, node: ir.Node) -> None:
    """Join neighbouring pieces of one value, and remove a concatenation of one."""
    axis = axis_of(node)
    if axis is None or None in node.inputs:
        return
    runs: list[list[Piece]] = []
    for value in node.inputs:
        assert value is not None
        piece = Piece.of(value, axis)
        if runs and runs[-1][-1].is_followed_by(piece):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    values = [_joined_concats(rewriter, node, run, axis) for run in runs]
    if len(values) == 1 and rewriter.bypass(node, values[0]):
        return
    if len(values) < len(node.inputs):
        rewriter.replace([node], "Concat", values, {"axis": axis})


def _joined_concats(rewriter: Rewriter, before: ir.Node, run: Sequence[Piece], axis: int) -> ir.Value:
    """Return one value for pieces that follow one another."""
    first, last = run[0], run[-1]
    source = first.source
    if len(run) == 1 or source is None:
        return first.value
    assert all(one.is_followed_by(other) for one, other in pairwise(run))
    shape = known_shape(source)
    if shape is not None and (first.begin, last.end) == (0, shape[axis]):
        return source
    numbers = [
        rewriter.initializer(ir.Tensor(np.array([number], np.int64)), f"{first.value.name}/{what}")
        for what, number in (("begin", first.begin), ("end", last.end), ("axis", axis))
    ]
    return rewriter.insert(before, "Slice", [source, *numbers]).outputs[0]


Cut = dict[int, tuple[int, int]]
"""How much a slice leaves out, before and after, by axis."""


@Pass
def absorb_crops(graph: Graph) -> None:
    """Drop slices that leave out nothing, and make the others behind transposed convolutions their padding.

    Sizes have to be known; where they are not, a slice stays as it is.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        cut = _cut_crops(node) if (node.domain, node.op_type) == ("", "Slice") else None
        source = node.inputs[0]
        if cut is None or source is None:
            continue
        maker = source.producer()
        if not any(any(row) for row in cut.values()):
            rewriter.bypass(node, source)
        elif maker is not None and has_one_reader(source) and _is_plain_deconvolution(maker, cut):
            _pad(maker, cut)
            source.shape = node.outputs[0].shape
            rewriter.bypass(node, source)


def _cut_crops(node: ir.Node) -> Cut | None:
    """Return what a slice leaves out; None if it takes steps, or its bounds or sizes are not known."""
    shape = known_shape(node.inputs[0]) if node.inputs[0] is not None else None
    bounds = [_numbers(value) for value in node.inputs[1:]]
    if shape is None or len(bounds) < 2 or bounds[0] is None or bounds[1] is None:
        return None
    axes = bounds[2] if len(bounds) > 2 else list(range(len(bounds[0])))
    steps = bounds[3] if len(bounds) > 3 else [1] * len(bounds[0])
    if axes is None or steps is None or any(step != 1 for step in steps):
        return None
    cut: Cut = {}
    for start, end, axis in zip(bounds[0], bounds[1], axes, strict=True):
        size = shape[axis]
        if size is None:
            if start != 0 or end < 2**31 - 1:
                return None
            continue
        begin, stop = (max(0, min(x + size if x < 0 else x, size)) for x in (start, end))
        if stop <= begin:
            return None
        cut[axis % len(shape)] = (begin, size - stop)
    return cut


def _numbers(value: ir.Value | None) -> list[int] | None:
    if value is None or value.const_value is None:
        return None
    return [int(x) for x in value.const_value.numpy().reshape(-1)]


def _is_plain_deconvolution(node: ir.Node, cut: Cut) -> bool:
    """Return whether a node is a transposed convolution with explicit padding, whose output is cropped."""
    attributes = attributes_of(node)
    plain = attributes.get("auto_pad", "NOTSET") == "NOTSET" and "output_shape" not in attributes
    is_deconvolution = (node.domain, node.op_type) == ("", "ConvTranspose")
    return is_deconvolution and plain and all(axis >= 2 for axis, row in cut.items() if any(row))


def _pad(node: ir.Node, cut: Cut) -> None:
    """Add what is cut to the padding of a transposed convolution, which is what it leaves out itself."""
    rank = len(known_shape(node.inputs[1]) or ()) - 2
    pads: Sequence[int] = attributes_of(node).get("pads") or (0,) * (2 * rank)
    rows = [cut.get(axis + 2, (0, 0)) for axis in range(rank)]
    added = itertools.chain((row[0] for row in rows), (row[1] for row in rows))
    node.attributes["pads"] = ir.AttrInt64s("pads", [p + more for p, more in zip(pads, added, strict=True)])


@Pass
def cut_splits(graph: Graph) -> None:
    """Put a Slice for each output of a Split that somebody reads, where its place is known."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Split"):
            _cut_cut_splits(rewriter, node)


def _cut_cut_splits(rewriter: Rewriter, split: ir.Node) -> None:
    axis = axis_of(split)
    used = [value for value in split.outputs if value.uses() or value.is_graph_output()]
    pieces = [Piece.of(value, axis) for value in used] if axis is not None else []
    if not pieces or any(piece.source is None for piece in pieces):
        return
    for piece in pieces:
        numbers = [
            rewriter.initializer(ir.Tensor(np.array([number], np.int64)), f"{piece.value.name}/{what}")
            for what, number in (("begin", piece.begin), ("end", piece.end), ("axis", axis))
        ]
        new = rewriter.insert(split, "Slice", [piece.source, *numbers]).outputs[0]
        new.type, new.shape = piece.value.type, piece.value.shape
        rewriter.take_over(piece.value, new)
    rewriter.graph.model.graph.remove(split, safe=True)


def num_splits(graph: Graph) -> int:
    """Return how many Splits a graph has."""
    return sum((node.domain, node.op_type) == ("", "Split") for node in graph.nodes)


@Pass
def sum_of_parts(graph: Graph) -> None:
    """Make a convolution over a concatenation of channels a sum of convolutions, where that saves memory.

    The concatenation, a copy of its parts, goes; a sum for each further part comes, which must be smaller
    than the copy. Runtimes add within the convolution. The weights are cut when they are read.
    """
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        concat = _concat_before(node)
        counts = _channels(concat) if concat is not None else None
        weight = known_shape(node.inputs[1]) if counts is not None else None
        if concat is None or counts is None or weight is None or weight[0] is None:
            continue
        if weight[0] * (len(counts) - 1) < sum(counts):
            _spread(rewriter, node, concat, counts)


def _concat_before(conv: ir.Node) -> ir.Node | None:
    """Return the concatenation of channels that an ungrouped convolution alone reads."""
    value = conv.inputs[0] if (conv.domain, conv.op_type) == ("", "Conv") else None
    maker = value.producer() if value is not None and has_one_reader(value) else None
    if maker is None or (maker.domain, maker.op_type) != ("", "Concat"):
        return None
    shape, axis = known_shape(maker.outputs[0]), maker.attributes.get_int("axis", 0)
    over_channels = axis == 1 or (shape is not None and axis + len(shape) == 1)
    return maker if over_channels and conv.attributes.get_int("group", 1) == 1 else None


def _channels(concat: ir.Node) -> list[int] | None:
    """Return how many channels each part has, if all say so and there are several."""
    shapes = [known_shape(value) for value in concat.inputs]
    counts = [shape[1] for shape in shapes if shape is not None and shape[1] is not None]
    return counts if 1 < len(counts) == len(shapes) else None


def _spread(rewriter: Rewriter, conv: ir.Node, concat: ir.Node, counts: Sequence[int]) -> None:
    """Put a sum of convolutions in the place of a concatenation and the convolution over it."""
    whole, whole_shape = conv.inputs[1], conv.outputs[0].shape
    weights = whole.const_value if whole is not None and whole.is_initializer() else None
    if whole is None or weights is None or whole.is_graph_input():
        return
    made: list[ir.Value] = []
    for part, (begin, end) in zip(concat.inputs, pairwise(accumulate(counts, initial=0)), strict=True):
        weight = rewriter.computed(
            partial(_cut_partial_sums, weights, begin, end),
            name=f"{whole.name}/{begin}",
            like=weights,
            shape=[weights.shape.numpy()[0], end - begin, *weights.shape.numpy()[2:]],
        )
        bias = [] if made else conv.inputs[2:]
        made.append(rewriter.insert(conv, "Conv", [part, weight, *bias], attributes_of(conv)).outputs[0])
    total, *rest, last = made
    for value in rest:
        total = rewriter.insert(conv, "Add", [total, value]).outputs[0]
        made.append(total)
    for value in made:
        value.shape, value.type = whole_shape, conv.outputs[0].type
    rewriter.replace([concat, conv], "Add", [total, last], {})


def _cut_partial_sums(weights: ir.TensorProtocol, begin: int, end: int) -> np.ndarray:
    return weights.numpy()[:, begin:end]


@Pass
def two_term_sums(graph: Graph) -> None:
    """Put an Add in the place of every Sum of two terms; both broadcast alike."""
    rewriter = Rewriter(graph)
    for node in list(graph.nodes):
        if (node.domain, node.op_type) == ("", "Sum") and len(node.inputs) == 2:
            old = node.outputs[0]
            new = rewriter.replace([node], "Add", node.inputs, {}).outputs[0]
            new.type, new.shape = old.type, old.shape
