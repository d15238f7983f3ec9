"""Projections: fused, grouped and banded matrix products."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.graph import attributes_of, known_shape
from netweave.graph.passes.rewriting import Pass, Rewriter, has_one_reader
from netweave.graph.passes.views import View, views_after, views_of
from netweave.graph.passes.windows import part_of_windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.graph import Graph
    from netweave.graph.passes.views import OpenSizes


# N examples, L steps, H heads, D features of each head, E features of each step.


@dataclass(frozen=True, slots=True)
class Dense:
    """A product with a stored matrix, and the stored bias that is added to it.

    Attributes:
        x: What is multiplied.
        weight: The matrix.
        bias: The bias; None for none.
        has_rows: Whether the matrix has a row, and not a column, for each output.
        nodes: The nodes.
    """

    x: ir.Value
    weight: ir.TensorProtocol
    bias: ir.TensorProtocol | None
    has_rows: bool
    nodes: tuple[ir.Node, ...]

    @property
    def result(self) -> ir.Value:
        """Its output."""
        return self.nodes[-1].outputs[0]

    def matrix(self) -> np.ndarray:
        """Load the matrix as (inputs, outputs)."""
        array = self.weight.numpy()
        return array.T if self.has_rows else array

    @property
    def num_outputs(self) -> int:
        """Number of features that it makes."""
        return int(self.weight.shape.numpy()[0 if self.has_rows else 1])

    def vector(self) -> np.ndarray:
        """Load the bias; zeros if there is none."""
        if self.bias is None:
            return np.zeros(self.num_outputs, self.weight.dtype.numpy())
        return np.asarray(np.broadcast_to(self.bias.numpy().reshape(-1), (self.num_outputs,)))

    def arrays(
        self, rewriter: Rewriter, *, columns: np.ndarray | None = None, name: str
    ) -> tuple[ir.Value, ir.Value]:
        """Add weight and bias to a graph, of some columns or of all, as (inputs, outputs) and (outputs,)."""
        rows = int(self.weight.shape.numpy()[1 if self.has_rows else 0])
        every = np.arange(self.num_outputs) if columns is None else columns
        weight = rewriter.computed(
            lambda: self.matrix()[:, every], name=f"{name}/weight", like=self.weight, shape=[rows, len(every)]
        )
        bias = rewriter.computed(
            lambda: self.vector()[every], name=f"{name}/bias", like=self.weight, shape=[len(every)]
        )
        return weight, bias


@dataclass(frozen=True, slots=True)
class Projection:
    """Queries, keys or values of all heads as the columns of one dense layer over a sequence (N, L, E).

    Attributes:
        source: The sequence.
        dense: The layer.
        columns: Its column for each head and feature, heads first.
        nodes: The nodes from the sequence to the layer's product.
    """

    source: ir.Value
    dense: Dense
    columns: np.ndarray
    nodes: tuple[ir.Node, ...]

    def arrays(self, rewriter: Rewriter) -> tuple[ir.Value, ir.Value]:
        """Add the layer's weight (E, H * D) and bias (H * D,) to a graph."""
        name = self.dense.result.name or ""
        return self.dense.arrays(rewriter, columns=self.columns, name=name)


@dataclass(frozen=True, slots=True)
class OutputProjection:
    """The dense layer that joins the heads.

    Attributes:
        result: The sequence that is made: (N, L, E).
        dense: The layer.
        nodes: The nodes from the heads to the sequence.
    """

    result: ir.Value
    dense: Dense
    nodes: tuple[ir.Node, ...]

    def arrays(self, rewriter: Rewriter) -> tuple[ir.Value, ir.Value]:
        """Add the layer's weight (H * D, E) and bias (E,) to a graph."""
        return self.dense.arrays(rewriter, name=self.dense.result.name or "")


def projection_of(view: View, sizes: OpenSizes) -> Projection | None:
    """Return the dense layer that (N, H, L, D) are columns of; None where it is not one over a sequence."""
    places = places_of(view)
    dense = dense_before(view.source)
    if places is None or dense is None:
        return None
    rows, columns = places
    num_rows = prod(view.sizes[:-1])
    for before in views_of(dense.x, sizes):
        shape = before.sizes
        if len(shape) != 3 or before.elements.size != num_rows * shape[-1]:
            continue
        features = before.elements.reshape(num_rows, -1)
        is_whole = features.shape[1] == shape[-1] and (features % shape[-1] == np.arange(shape[-1])).all()
        if is_whole and np.array_equal(
            features[:, 0][rows] // shape[-1], np.arange(rows.size).reshape(shape[:2])
        ):
            nodes = (*before.nodes, *dense.nodes)
            return Projection(before.source, dense, columns.reshape(-1), nodes)
    return None


def places_of(view: View) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the row of the source for each example and step, and the column for each head and feature."""
    rows, columns = view.rows[:, 0, :, 0], view.columns[0, :, 0, :]
    is_grid = (view.rows == rows[:, None, :, None]).all() and (
        view.columns == columns[None, :, None, :]
    ).all()
    return (rows, columns) if is_grid else None


def projected_output(heads: ir.Value, shape: tuple[int, ...], sizes: OpenSizes) -> OutputProjection | None:
    """Return the dense layer that alone reads the heads (N, H, L, D), joined, and makes a sequence."""
    for value, view in views_after(heads, sizes):
        dense = dense_after(value)
        rows = joined_rows(view, shape)
        if dense is None or rows is None:
            continue
        for result, after in views_after(dense.result, sizes):
            order = _rows_after(after)
            if order is None or order.shape != (shape[0], shape[2]):
                continue
            if np.array_equal(rows[order], np.arange(rows.size).reshape(order.shape)):
                return OutputProjection(result, dense, (*view.nodes, *dense.nodes, *after.nodes))
    return None


def joined_rows(view: View, shape: tuple[int, ...]) -> np.ndarray | None:
    """Return the number of the example and step of each row of (..., H * D); None for other views."""
    count, num_heads, steps, width = shape
    n, h, step, d = np.unravel_index(view.elements.reshape(-1), (count, num_heads, steps, width))
    columns = (h * width + d).reshape(-1, view.elements.shape[-1])
    rows = (n * steps + step).reshape(columns.shape)
    is_joined = columns.shape[1] == num_heads * width and (columns == np.arange(columns.shape[1])).all()
    return rows[:, 0] if is_joined and (rows == rows[:, :1]).all() else None


def _rows_after(view: View) -> np.ndarray | None:
    """Return the row of the source for each place of a view (N, L, E); None where it is no such."""
    if view.elements.ndim != 3 or view.elements.shape[-1] != view.sizes[-1]:
        return None
    is_whole = (view.columns == np.arange(view.sizes[-1])).all() and (view.rows == view.rows[..., :1]).all()
    return view.rows[..., 0] if is_whole else None


def dense_before(value: ir.Value) -> Dense | None:
    """Return the dense layer that makes a value."""
    node = value.producer()
    if node is None:
        return None
    biased = _biased(node)
    return biased or _product(node)


def dense_after(value: ir.Value) -> Dense | None:
    """Return the dense layer that alone reads a value."""
    if not has_one_reader(value):
        return None
    node = next(use.node for use in value.uses())
    product = _product(node)
    if product is None or product.x is not value:
        return None
    following = [use.node for use in product.result.uses()]
    return (_biased(following[0]) if len(following) == 1 else None) or product


def _biased(add: ir.Node) -> Dense | None:
    """Return the dense layer whose bias a node adds."""
    if add.domain or add.op_type != "Add":
        return None
    for made, bias in (add.inputs, reversed(add.inputs)):
        if made is None or bias is None or bias.const_value is None or not has_one_reader(made):
            continue
        maker = made.producer()
        product = _product(maker) if maker is not None and maker.op_type == "MatMul" else None
        if product is None or bias.const_value.size != (bias.const_value.shape.numpy() or (1,))[-1]:
            return None
        outputs = product.weight.shape.numpy()[1]
        if bias.const_value.size == outputs:
            return Dense(product.x, product.weight, bias.const_value, False, (*product.nodes, add))
    return None


def _product(node: ir.Node) -> Dense | None:
    """Return a MatMul with a stored matrix, or a Gemm, as a dense layer."""
    if node.domain or node.op_type not in {"Gemm", "MatMul"} or len(node.inputs) < 2:
        return None
    x, matrix, *more = node.inputs
    settings = attributes_of(node)
    is_plain = not settings.get("transA") and settings.get("alpha", 1) == settings.get("beta", 1) == 1
    if x is None or matrix is None or matrix.const_value is None or x.const_value is not None or not is_plain:
        return None
    bias = more[0].const_value if more and more[0] is not None else None
    if len(matrix.const_value.shape) != 2 or (more and more[0] is not None and bias is None):
        return None
    return Dense(x, matrix.const_value, bias, bool(settings.get("transB")), (node,))


# Each band is given the rows around it that its windows reach into (halos), and no padding but at the
# image's own edges, so that every output is computed from the same numbers as before. What two bands both
# need is computed twice.

ROW_AXIS = 2

ELEMENTWISE = frozenset(
    {"Abs", "Add", "BatchNormalization", "Clip", "Concat", "Div", "Elu", "Gelu", "HardSigmoid", "HardSwish"}
    | {"Identity", "LRN", "LeakyRelu", "Mish", "Mul", "PRelu", "Relu", "Sigmoid", "Softplus", "Sub", "Sum"}
    | {"Tanh"}
)
"""Operators of which a row of the output is made from the same row of the inputs."""

WINDOWED = frozenset({"AveragePool", "Conv", "MaxPool"})
"""Operators of which a row of the output is made from a window of rows of the first input."""


class NotTileableError(Exception):
    """Some layers cannot be computed over bands."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A range of rows: from ``begin`` to before ``end``."""

    begin: int
    end: int

    def __or__(self, other: Rows) -> Rows:
        return Rows(min(self.begin, other.begin), max(self.end, other.end))

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class _Need:
    """The rows that a node reads for some rows of its output.

    Attributes:
        rows: Of its inputs that are images.
        attributes: Its own then.
    """

    rows: Rows
    attributes: Mapping[str, Any]


def tile(graph: Graph, nodes: Sequence[ir.Node], num_bands: int) -> Graph:
    """Return a graph in which some nodes are computed over bands; the graph that is given stays as it is.

    Args:
        graph: The net as it predicts, with known heights and widths.
        nodes: Nodes of the graph, in its order; only one value of theirs is read by others.
        num_bands: Bands, >= 2.

    Raises:
        NotTileableError: An operator needs more than some rows, or several values leave the nodes.
    """
    names = {node.name for node in nodes}

    def edit(copy: Graph) -> None:
        _Tiler(copy, [node for node in copy.nodes if node.name in names]).tile(num_bands)

    return Pass(edit)(graph)


def is_tileable(node: ir.Node) -> bool:
    """Return whether rows of a node's output can be computed from some rows of its inputs."""
    if len(node.outputs) != 1 or _height(node.outputs[0]) is None:
        return False
    if node.op_type == "Concat" and attributes_of(node).get("axis") not in {1, -3}:
        return False
    return (node.op_type in ELEMENTWISE and node.domain == "") or node.op_type in WINDOWED


class _Tiler:
    """Tiles one run of nodes of one graph."""

    def __init__(self, graph: Graph, nodes: Sequence[ir.Node]) -> None:
        self._graph, self._nodes = graph, nodes
        self._own = set(nodes)
        self._rewriter = Rewriter(graph)
        self._exit = self._only_exit()

    def _only_exit(self) -> ir.Value:
        exits = [
            value
            for node in self._nodes
            for value in node.outputs
            if value.is_graph_output() or any(user not in self._own for user, _ in value.uses())
        ]
        if len(exits) != 1 or not all(map(is_tileable, self._nodes)):
            raise NotTileableError
        return exits[0]

    def tile(self, num_bands: int) -> None:
        height = _height(self._exit)
        if height is None or height < num_bands:
            raise NotTileableError
        bounds = [height * number // num_bands for number in range(num_bands + 1)]
        bands = [Rows(begin, end) for begin, end in pairwise(bounds)]
        needs = [self._needs(band) for band in bands]
        after = self._nodes[-1]
        made = [self._band(band, need) for band, need in zip(bands, needs, strict=True)]
        whole = self._rewriter.insert(after, "Concat", made, {"axis": ROW_AXIS})
        self._rewriter.take_over(self._exit, whole.outputs[0])
        for node in reversed(self._nodes):
            self._graph.model.graph.remove(node, safe=True)

    def _needs(self, band: Rows) -> dict[ir.Value, Rows]:
        """Return the rows of each value that a band of the exit needs."""
        needed = {self._exit: band}
        for node in reversed(self._nodes):
            rows = needed.get(node.outputs[0])
            if rows is None:
                continue
            for value in _images(node):
                own = _need(node, rows).rows
                needed[value] = needed[value] | own if value in needed else own
        return needed

    def _band(self, band: Rows, needed: Mapping[ir.Value, Rows]) -> ir.Value:
        """Add the nodes of one band; return its part of the exit."""
        there: dict[ir.Value, tuple[ir.Value, int]] = {}
        for node in self._nodes:
            rows = needed.get(node.outputs[0])
            if rows is None:
                continue
            need = _need(node, rows)
            images = set(_images(node))
            inputs = [
                self._rows_of(value, need.rows, there) if value in images and value is not None else value
                for value in node.inputs
            ]
            anchor = self._nodes[-1]
            new = self._rewriter.insert(anchor, node.op_type, inputs, need.attributes, domain=node.domain)
            new.metadata_props.update(node.metadata_props)
            new.outputs[0].type = node.outputs[0].type
            new.outputs[0].shape = _with_rows(node.outputs[0], rows.count)
            there[node.outputs[0]] = (new.outputs[0], rows.begin)
        return there[self._exit][0]

    def _rows_of(
        self, value: ir.Value, rows: Rows, there: Mapping[ir.Value, tuple[ir.Value, int]]
    ) -> ir.Value:
        """Return some rows of a value, as a slice of what is there of it."""
        whole, begin = there.get(value, (value, 0))
        height = _height(whole)
        if rows.begin == begin and rows.count == height:
            return whole
        bounds = [
            self._rewriter.initializer(ir.tensor([number], dtype=ir.DataType.INT64), "band")
            for number in (rows.begin - begin, rows.end - begin, ROW_AXIS)
        ]
        new = self._rewriter.insert(self._nodes[-1], "Slice", [whole, *bounds])
        new.outputs[0].type = value.type
        new.outputs[0].shape = _with_rows(value, rows.count)
        return new.outputs[0]


def _images(node: ir.Node) -> list[ir.Value]:
    """Return the inputs of a node that rows are taken of."""
    if node.op_type in WINDOWED or node.op_type in {"BatchNormalization", "PRelu", "Clip"}:
        first = node.inputs[0]
        return [first] if first is not None else []
    height = _height(node.outputs[0])
    images = []
    for value in node.inputs:
        shape = known_shape(value)
        if value is None or shape is None:
            raise NotTileableError
        if len(shape) == 4 and shape[ROW_AXIS] == height and height != 1:
            images.append(value)
        elif len(shape) > 1 and shape[-2] != 1:
            raise NotTileableError  # a stored array with rows of its own
    return images


def _need(node: ir.Node, rows: Rows) -> _Need:
    """Return what a node reads for some rows of its output."""
    attributes = attributes_of(node)
    if node.op_type not in WINDOWED:
        return _Need(rows, attributes)
    sizes = known_shape(node.outputs[0])
    if sizes is None or len(sizes) != 4 or sizes[3] is None:
        raise NotTileableError
    part = part_of_windows(node, [(rows.begin, rows.end), (0, sizes[3])])
    if part is None or part.num_windows != (rows.count, sizes[3]):
        raise NotTileableError
    return _Need(Rows(*part.reads[0]), part.attributes)


def _height(value: ir.Value | None) -> int | None:
    shape = known_shape(value)
    return shape[ROW_AXIS] if shape is not None and len(shape) == 4 and None not in shape[1:] else None


def _with_rows(value: ir.Value, count: int) -> ir.Shape:
    assert value.shape is not None
    dims = list(value.shape.dims)
    dims[ROW_AXIS] = count
    return ir.Shape(dims)
