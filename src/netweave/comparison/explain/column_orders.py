"""Orders of dense columns, where two nets flatten in another order and weights are copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import as_dense, filter_shape
from netweave.comparison.explain.flatten import column_order, flattened
from netweave.comparison.explain.known_mismatches.mismatch import Case
from netweave.comparison.layout.tensors import candidate_layouts

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.prepare import Side

DENSE = frozenset({"Gemm", "MatMul"})


def column_orders(alignment: Alignment, *, target: Side) -> dict[str, np.ndarray]:
    """Return, for dense nodes behind a flatten in another order, which input takes whose weights.

    Nothing is known of the values yet: what is flattened has the likeliest layout that its sizes tell.

    Args:
        alignment: Pairs found by structure; of the tensors of its sides, sizes are used.
        target: The side that is given weights.

    Returns:
        By the name of the node that is given weights: for each of its inputs the input of the other node.
    """
    a, b = alignment.sides
    orders = {}
    for node_a in a.signals.nodes:
        node_b = a.partners.get(id(node_a))
        # a convolution whose window is all that it reads is a dense layer, too
        if node_b is None or DENSE.isdisjoint({node_a.op_type, node_b.op_type}):
            continue
        name_a, name_b = flattened(a.signals, node_a), flattened(b.signals, node_b)
        if name_a is None or name_b is None:
            continue
        shape, shape_b = a.tensors.shape_of(name_a), b.tensors.shape_of(name_b)
        if shape is None or shape_b is None:
            continue
        layouts = candidate_layouts(shape, shape_b, alignment.hints())
        case = Case(
            a.signals,
            b.signals,
            (node_a,),
            (node_b,),
            changes=dict(zip((name_b,), layouts, strict=False)),
            shapes_a={name_a: shape},
        )
        order = column_order(case, node_a, node_b)
        if order is not None and order.size == _columns(node_b) and (order != np.arange(order.size)).any():
            if target.is_a:
                orders[str(node_a.name)] = np.argsort(order)
            else:
                orders[str(node_b.name)] = order
    return orders


def _columns(node: ir.Node) -> int | None:
    """Number of inputs of an element of the output; of a convolution, all that is in its window."""
    shape = filter_shape(node)
    return None if shape is None else as_dense(shape)[1]
