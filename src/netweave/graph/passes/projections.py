"""The dense layers around attention: which columns of which product each head is, and of what sequence.

N examples, L steps, H heads, D features of each head, E features of each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import attributes_of
from netweave.graph.passes.rewrite import has_one_reader
from netweave.graph.passes.views import View, views_after, views_of

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph.passes.rewrite import Rewriter
    from netweave.graph.passes.views import OpenSizes


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
