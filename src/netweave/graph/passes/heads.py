"""Heads of attention in one form: repeated heads, rotated pairs, and dense layers that hold several."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph import DOMAIN, attributes_of, infer_shapes, known_shape
from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.attention import Scores, scores_around
from netweave.graph.passes.projections import Dense, dense_before
from netweave.graph.passes.rewriting import Pass, Rewriter, prune
from netweave.graph.passes.views import OpenSizes, View, is_repeat, views_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from netweave.graph import Graph


# N examples, L steps, H heads, D features of each head, C columns of a dense layer.


@Pass
def join_repeats(graph: Graph) -> None:
    """Make one Gather of nodes that give each entry along one axis several times, in whatever order."""
    rewriter = Rewriter(graph)
    covered: set[ir.Node] = set()
    for node in reversed(list(graph.nodes)):
        if (
            node in covered
            or node.domain
            or not (is_repeat(node) or node.op_type in {"Reshape", "Transpose"})
        ):
            continue
        for view in views_of(node.outputs[0], OpenSizes(), repeats=True):
            found = _repeated(view) if any(map(is_repeat, view.nodes)) else None
            if found is None:
                continue
            axis, places = found
            if view.source.shape is None or not isinstance(view.source.shape[axis], int):
                continue  # how many entries there are is open
            if view.source.const_value is not None:
                continue  # no heads, but what is stored for each example
            index = rewriter.initializer(ir.Tensor(places), f"{node.name}/places")
            inputs = [view.source, index]
            rewriter.fuse(view.nodes, node.outputs[0], "Gather", inputs, {"axis": axis})
            covered.update(view.nodes)
            break
    if covered:
        prune.edit(graph)


def _repeated(view: View) -> tuple[int, np.ndarray] | None:
    """Return the axis along which a view takes entries of its source, more than it has, and which."""
    shape = view.elements.shape
    if len(shape) != len(view.sizes):
        return None
    longer = [axis for axis, (size, own) in enumerate(zip(shape, view.sizes, strict=True)) if size != own]
    if len(longer) != 1 or shape[longer[0]] < view.sizes[longer[0]]:
        return None
    (axis,) = longer
    whole = np.arange(int(np.prod(view.sizes))).reshape(view.sizes)
    line = view.elements[tuple(slice(None) if at == axis else 0 for at in range(len(shape)))]
    places = np.unravel_index(line, view.sizes)[axis].astype(np.int64)
    return (axis, places) if np.array_equal(whole.take(places, axis), view.elements) else None


# Queries may stand in groups, (N, G, R, L, D), each of which shares its keys and values, (N, G, 1, S, D).


@dataclass(frozen=True, slots=True)
class _Groups:
    """Sizes of grouped queries.

    Attributes:
        count: Number of groups, G.
        members: Queries in each, R.
        features: Features of a query.
        columns: Features of a value.
    """

    count: int
    members: int
    features: int
    columns: int


@Pass
def join_groups(graph: Graph) -> None:
    """Give each head of grouped queries its keys and values, as code does that repeats these."""
    rewriter = Rewriter(graph)
    softmaxes = [node for node in graph.nodes if node.op_type == "Softmax" and not node.domain]
    cores = [scores for node in softmaxes if (scores := scores_around(node)) is not None]
    is_joined = [_join_groups(rewriter, scores) for scores in cores]
    if any(is_joined):
        prune.edit(graph)
        infer_shapes(graph)


def _groups_of(scores: Scores) -> _Groups | None:
    query, key, value = (known_shape(x) or () for x in (scores.query, scores.key, scores.value))
    if not len(query) == len(key) == len(value) == 5 or not key[2] == value[2] == 1 != query[2]:
        return None
    count, members, features, columns = query[1], query[2], query[4], value[4]
    if count is None or members is None or features is None or columns is None:
        return None
    return _Groups(count, members, features, columns)


def _join_groups(rewriter: Rewriter, scores: Scores) -> bool:
    """Compute the core of attention with one axis for the heads; return whether it had two."""
    groups = _groups_of(scores)
    product, last = next(node for node in scores.nodes if node.op_type == "MatMul"), scores.nodes[-1]
    masks = _read_beside(scores, [product, last])
    if groups is None or any(set(shape[-4:-2]) - {1} for shape in masks.values()):
        return False
    heads = groups.count * groups.members
    joined = {
        scores.query: _reshaped(rewriter, product, scores.query, [0, heads, -1, groups.features]),
        scores.key: _for_each_head(rewriter, product, scores.key, groups, is_turned=True),
        scores.value: _for_each_head(rewriter, last, scores.value, groups),
    }
    for node in scores.nodes:
        for x in (x for x in node.inputs if x in masks and x not in joined and len(masks[x]) > 2):
            axis = rewriter.initializer(ir.Tensor(np.array([len(masks[x]) - 3])), f"{node.name}/axis")
            joined[x] = rewriter.insert(node, "Squeeze", [x, axis]).outputs[0]
        inputs = [joined.get(x, x) if x is not None else None for x in node.inputs]
        attributes = attributes_of(node) | ({"axis": -1} if node.op_type == "Softmax" else {})
        joined[node.outputs[0]] = rewriter.insert(node, node.op_type, inputs, attributes).outputs[0]
    result, shape = last.outputs[0], [0, groups.count, groups.members, -1, groups.columns]
    rewriter.take_over(result, _reshaped(rewriter, last, joined[result], shape))
    return True


def _read_beside(scores: Scores, products: Sequence[ir.Node]) -> dict[ir.Value, tuple[int | None, ...]]:
    """Return what the core of attention reads besides queries, keys and values, with its sizes."""
    made = {value for node in scores.nodes for value in node.outputs}
    read = [value for node in scores.nodes if node not in products for value in node.inputs]
    return {x: known_shape(x) or () for x in read if x is not None and x not in made}


def _reshaped(rewriter: Rewriter, before: ir.Node, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    sizes = rewriter.initializer(ir.Tensor(np.array(shape, np.int64)), f"{before.name}/sizes")
    return rewriter.insert(before, "Reshape", [x, sizes]).outputs[0]


def _for_each_head(
    rewriter: Rewriter, before: ir.Node, x: ir.Value, groups: _Groups, *, is_turned: bool = False
) -> ir.Value:
    """Return keys or values of each head, (N, H, S, D), those of keys turned as they were."""
    turn = {"perm": [0, 1, 3, 2]}
    axis = rewriter.initializer(ir.Tensor(np.array([2])), f"{before.name}/axis")
    x = rewriter.insert(before, "Squeeze", [x, axis]).outputs[0]
    x = rewriter.insert(before, "Transpose", [x], turn).outputs[0] if is_turned else x
    index = ir.Tensor(np.repeat(np.arange(groups.count), groups.members))
    places = rewriter.initializer(index, f"{before.name}/places")
    x = rewriter.insert(before, "Gather", [x, places], {"axis": 1}).outputs[0]
    return rewriter.insert(before, "Transpose", [x], turn).outputs[0] if is_turned else x


# Queries, keys and values, or a gate and what it multiplies, are columns of one dense layer or of several.


@dataclass(frozen=True, slots=True)
class _Columns:
    """A value whose features are some columns of a dense layer over a sequence (N, L, C).

    Attributes:
        value: The value.
        dense: The layer.
        columns: The columns, in the order of the axes that they lie along.
        axes: These axes.
        others: The axes of examples and of steps, then those of one entry.
    """

    value: ir.Value
    dense: Dense
    columns: np.ndarray
    axes: tuple[int, ...]
    others: tuple[int, ...]


def parted_columns(graph: Graph) -> list[tuple[int, bytes]]:
    """Return the dense layers of which parts are read, in order: their width, and the columns of a part."""
    return [(part.dense.num_outputs, part.columns.tobytes()) for part in _parts(graph)]


@Pass
def part_projections(graph: Graph) -> None:
    """Give each part of a dense layer's output that is read a dense layer of its own."""
    rewriter = Rewriter(graph)
    parts = list(_parts(graph))
    for part in parts:
        _make_own(rewriter, part)
    if parts:
        prune.edit(graph)


def _parts(graph: Graph) -> Iterator[_Columns]:
    for node in graph.nodes:
        if node.domain or node.op_type not in {"Split", "Slice", "Gather"}:
            continue
        for value in node.outputs:
            if value.uses() and (part := _part_of(value, OpenSizes())) is not None:
                yield part


def _part_of(value: ir.Value, sizes: OpenSizes) -> _Columns | None:
    for view in views_of(value, sizes):
        dense = dense_before(view.source) if view.nodes and len(view.sizes) == 3 else None
        if dense is None or view.elements.size == np.prod(view.sizes):
            continue
        rows, columns = view.rows, view.columns
        axes = tuple(axis for axis in range(rows.ndim) if (columns != columns.take([0], axis)).any())
        others = tuple(axis for axis in range(rows.ndim) if axis not in axes)
        own = columns[tuple(slice(None) if axis in axes else 0 for axis in range(rows.ndim))]
        at = rows[tuple(slice(None) if axis in others else 0 for axis in range(rows.ndim))]
        is_grid = np.array_equal(np.expand_dims(own, others) + 0 * columns, columns) and np.array_equal(
            np.expand_dims(at, axes) + 0 * rows, rows
        )
        shape = tuple(size for size in at.shape if size > 1)
        in_order = np.array_equal(at.reshape(-1), np.arange(at.size)) and at.ndim >= 2
        if is_grid and in_order and shape == tuple(size for size in view.sizes[:2] if size > 1):
            examples = at.shape.index(view.sizes[0])
            steps = next(i for i, size in enumerate(at.shape) if i != examples and size == view.sizes[1])
            rest = [axis for i, axis in enumerate(others) if i not in {examples, steps}]
            return _Columns(value, dense, own, axes, (others[examples], others[steps], *rest))
    return None


def _make_own(rewriter: Rewriter, part: _Columns) -> None:
    """Put a dense layer of some columns in the place of a value."""
    value, dense, columns = part.value, part.dense, part.columns
    before = value.producer()
    assert before is not None
    weight, bias = dense.arrays(rewriter, columns=columns.reshape(-1), name=f"{value.name}")
    for node in dense.nodes:
        for read in node.inputs:
            if read is not None and read.const_value is not None:
                tag_sources(weight if read.const_value is dense.weight else bias, source_keys(read))
    made = rewriter.insert(before, "MatMul", [dense.x, weight]).outputs[0]
    if dense.bias is not None:
        made = rewriter.insert(before, "Add", [made, bias]).outputs[0]
    order = [*part.others, *part.axes]
    if order != [0, 1, 2]:
        kept = [0, 0, *[1] * (len(part.others) - 2), *columns.shape]
        counts = rewriter.initializer(ir.Tensor(np.array(kept, np.int64)), f"{value.name}/sizes")
        made = rewriter.insert(before, "Reshape", [made, counts]).outputs[0]
        made = rewriter.insert(before, "Transpose", [made], {"perm": np.argsort(order).tolist()}).outputs[0]
    rewriter.take_over(value, made)


# Weights of a port may hold the two features of a rotated pair side by side.


_Arrays = tuple[tuple[ir.Node, int, np.ndarray], ...]
"""Stored arrays, as a node and an input of it, with the order of their columns in which halves are pairs."""


@dataclass(frozen=True, slots=True)
class _Turned:
    """A rotation of neighbours, and what brings its features into order.

    Attributes:
        node: The rotation.
        order: The features of a head in this order.
        arrays: The arrays before it.
    """

    node: ir.Node
    order: np.ndarray
    arrays: _Arrays


def num_neighbours(graph: Graph) -> int:
    """Return how many rotations of a graph turn neighbours."""
    return len(_neighbours(graph))


def rotated_features(graph: Graph) -> set[int]:
    """Return how many features of a head the rotations of a graph turn."""
    return {dim for node in graph.nodes if _is_rotation(node) and (dim := _num_rotated(node)) is not None}


def pair_halves(num_features: int | None = None) -> Pass:
    """Return a pass that lets rotations turn halves, and the dense layers before make features in that order.

    Args:
        num_features: How many features of each head the weights have in the order of neighbours, if these are
            more than are turned.
    """

    def edit(graph: Graph) -> None:
        rewriter, sizes = Rewriter(graph), OpenSizes()
        rotations = _neighbours(graph)
        found = [turned for node in rotations if (turned := _turned(node, sizes, num_features)) is not None]
        others = _unrotated(found, sizes)
        if len(found) < len(rotations) or others is None:
            return
        for node, index, order in {
            (id(n), i): (n, i, o) for n, i, o in (*_arrays_of(found), *others)
        }.values():
            old = node.inputs[index]
            assert old is not None
            assert old.const_value is not None  # as ``_arrays_before`` has it
            array = np.ascontiguousarray(old.const_value.numpy()[..., order])
            new = rewriter.initializer(ir.Tensor(array), old.name or "")
            tag_sources(new, source_keys(old))
            node.replace_input_with(index, new)
        for each in found:
            each.node.attributes["interleaved"] = ir.AttrInt64("interleaved", 0)
            if num_features not in {None, _num_rotated(each.node)}:
                _pad(rewriter, each.node, num_features)
        prune.edit(graph)

    return Pass(edit)


def _arrays_of(found: Sequence[_Turned]) -> _Arrays:
    return tuple(array for each in found for array in each.arrays)


def _pad(rewriter: Rewriter, node: ir.Node, num_features: int) -> None:
    """Let a rotation turn more features, those that it did not turn by an angle of 0."""
    for index, neutral in ((1, 1), (2, 0)):
        table = _table(node, index)
        assert table is not None  # as ``_turned`` has it
        missing = np.full((*table.shape[:-1], num_features // 2 - table.shape[-1]), neutral, table.dtype)
        padded = rewriter.initializer(ir.Tensor(np.concatenate([table, missing], -1)), f"{node.name}/{index}")
        node.replace_input_with(index, padded)
    node.attributes["rotary_dim"] = ir.AttrInt64("rotary_dim", num_features)


def _table(node: ir.Node, index: int) -> np.ndarray | None:
    value = node.inputs[index]
    return value.const_value.numpy() if value is not None and value.const_value is not None else None


def _unrotated(found: Sequence[_Turned], sizes: OpenSizes) -> _Arrays | None:
    """Return the arrays before queries and keys that meet rotated ones and are not rotated themselves.

    None if what makes some of them is not known: scores depend on one order of both.
    """
    rotated = {each.node.outputs[0]: each.order for each in found}
    arrays: list[tuple[ir.Node, int, np.ndarray]] = []
    for value, order in rotated.items():
        for attention in _attentions(value):
            for x in attention.inputs[:2]:
                source = _unrepeated(x)
                if source in rotated:
                    continue
                own = _arrays_before(source, order, sizes) if source is not None else None
                if own is None:
                    return None
                arrays += own
    return tuple(arrays)


def _attentions(value: ir.Value) -> list[ir.Node]:
    """Return the attention that reads queries or keys, repeated or not."""
    nodes = [use.node for use in value.uses()]
    return [
        each
        for node in nodes
        for each in ([node] if node.op_type == "Attention" else _attentions(node.outputs[0]))
    ]


def _unrepeated(x: ir.Value | None) -> ir.Value | None:
    node = x.producer() if x is not None else None
    return _unrepeated(node.inputs[0]) if node is not None and _keeps_features(node) else x


def _keeps_features(node: ir.Node) -> bool:
    """Return whether a node repeats or moves heads and steps, and leaves the features of each as they are."""
    attributes = attributes_of(node)
    if node.op_type == "Gather":
        shape = node.inputs[0].shape if node.inputs[0] is not None else None
        return shape is not None and attributes.get("axis", 0) in range(len(shape) - 1)
    perm = attributes.get("perm", ())
    return node.op_type == "Transpose" and bool(perm) and perm[-1] == len(perm) - 1


def stored_before_rotations(graph: Graph) -> Counter[bytes]:
    """Return the numbers that the dense layers before rotations store, and how often."""
    numbers: Counter[bytes] = Counter()
    for node in graph.nodes:
        x = node.inputs[0] if _is_rotation(node) and _is_scored(node.outputs[0]) else None
        order = np.arange(x.shape[-1]) if x is not None and x.shape and isinstance(x.shape[-1], int) else None
        arrays = _arrays_before(x, order, OpenSizes()) if x is not None and order is not None else None
        for maker, index, _ in arrays or ():
            value = maker.inputs[index]
            if value is not None and value.const_value is not None:
                numbers[value.const_value.numpy().tobytes()] += 1
    return numbers


def _is_rotation(node: ir.Node) -> bool:
    return (node.domain, node.op_type) == (DOMAIN, "RotaryEmbedding")


def _neighbours(graph: Graph) -> list[ir.Node]:
    return [node for node in graph.nodes if _is_rotation(node) and attributes_of(node).get("interleaved", 0)]


def _num_rotated(node: ir.Node) -> int | None:
    x = node.inputs[0]
    width = x.shape[-1] if x is not None and x.shape is not None else None
    return attributes_of(node).get("rotary_dim", 0) or (width if isinstance(width, int) else None)


def _turned(node: ir.Node, sizes: OpenSizes, num_features: int | None = None) -> _Turned | None:
    """Return what a rotation of queries or keys reads, if only scores depend on the order of its features."""
    x, dim = node.inputs[0], num_features or _num_rotated(node)
    if x is None or x.shape is None or not isinstance(x.shape[-1], int) or not _is_scored(node.outputs[0]):
        return None
    if dim is None or not (_num_rotated(node) or 0) <= dim <= x.shape[-1]:
        return None
    if dim != _num_rotated(node) and any(_table(node, index) is None for index in (1, 2)):
        return None
    order = np.arange(x.shape[-1])
    order[:dim] = np.arange(dim).reshape(-1, 2).T.reshape(-1)
    arrays = _arrays_before(x, order, sizes)
    return _Turned(node, order, arrays) if arrays is not None else None


def _arrays_before(x: ir.Value, order: np.ndarray, sizes: OpenSizes) -> _Arrays | None:
    """Return what a dense layer before queries or keys and a norm between store, and an order."""
    arrays: list[tuple[ir.Node, int, np.ndarray]] = []
    norm = _norm_before(x, sizes)
    if norm is not None:
        arrays += [(norm, index, order) for index in range(1, len(norm.inputs))]
    source = norm.inputs[0] if norm is not None else x
    dense_and_view = _heads_before(source, sizes) if source is not None else None
    if dense_and_view is None:
        return None
    dense, num_heads = dense_and_view
    columns = (np.arange(num_heads)[:, None] * len(order) + order).reshape(-1)
    for maker in dense.nodes:
        for index, value in enumerate(maker.inputs):
            if value is not None and value.const_value is not None:
                if maker.op_type == "Gemm" or value.const_value.shape.numpy()[-1] != len(columns):
                    return None
                arrays.append((maker, index, columns))
    return tuple(arrays)


def _norm_before(x: ir.Value, sizes: OpenSizes) -> ir.Node | None:
    """Return the normalisation of each head that makes a value, the order of its other axes aside."""
    for view in views_of(x, sizes):
        node, width = view.source.producer(), view.elements.shape[-1]
        is_kept = view.sizes[-1] == width and (view.columns == np.arange(width)).all()
        if node is not None and is_kept and node.op_type in {"RMSNormalization", "LayerNormalization"}:
            return node
    return None


def _heads_before(x: ir.Value, sizes: OpenSizes) -> tuple[Dense, int] | None:
    """Return the dense layer that makes all heads of a value, one after another, and their number."""
    for view in views_of(x, sizes):
        dense = dense_before(view.source)
        if dense is None or view.elements.ndim != 4 or view.elements.size != np.prod(view.sizes):
            continue
        width = view.elements.shape[-1]
        within = view.columns.reshape(-1, width) - np.arange(width)
        is_in_order = (within == within[:, :1]).all() and not (within % width).any()
        return (dense, view.sizes[-1] // width) if is_in_order else None
    return None


def _is_scored(value: ir.Value) -> bool:
    """Return whether a value is read as queries or keys of attention alone."""
    uses = list(value.uses())
    return (
        bool(uses)
        and not value.is_graph_output()
        and all(
            (use.node.op_type == "Attention" and use.idx < 2)
            or (use.idx == 0 and _keeps_features(use.node) and _is_scored(use.node.outputs[0]))
            for use in uses
        )
    )
