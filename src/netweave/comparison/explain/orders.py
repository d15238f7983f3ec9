"""Which column of dense weights is which, where two nets flatten in another order and weights are carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.layout import candidate_layouts
from netweave.comparison.align.weights import as_dense, filter_shape
from netweave.comparison.explain.flatten import column_order, flattened
from netweave.comparison.explain.traps.trap import Case

if TYPE_CHECKING:
    from collections.abc import Mapping

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment

DENSE = frozenset({"Gemm", "MatMul"})


def dense_orders(
    alignment: Alignment,
    tensors_a: Mapping[str, np.ndarray],
    tensors_b: Mapping[str, np.ndarray],
    *,
    to_b: bool,
) -> dict[str, np.ndarray]:
    """Return, for dense nodes behind a flatten in another order, which input takes whose weights.

    Nothing is known of the values yet: what is flattened has the likeliest layout that its sizes tell.

    Args:
        alignment: Pairs found by structure.
        tensors_a: Tensors of A, for their sizes.
        tensors_b: Tensors of B.
        to_b: Whether weights go from A to B; otherwise from B to A.

    Returns:
        By the name of the node that is given weights: for each of its inputs the input of the other node.
    """
    found = {}
    for node_a in alignment.a.nodes:
        node_b = alignment.partner(node_a)
        # a convolution whose window is all that it reads is a dense layer, too
        if node_b is None or DENSE.isdisjoint({node_a.op_type, node_b.op_type}):
            continue
        name_a, name_b = flattened(alignment.a, node_a), flattened(alignment.b, node_b)
        if name_a is None or name_b is None or name_a not in tensors_a or name_b not in tensors_b:
            continue
        shape = tensors_a[name_a].shape
        layouts = candidate_layouts(shape, tensors_b[name_b].shape, alignment.hints())
        case = Case(
            alignment.a,
            alignment.b,
            (node_a,),
            (node_b,),
            mappings=dict(zip((name_b,), layouts, strict=False)),
            shapes_a={name_a: shape},
        )
        order = column_order(case, node_a, node_b)
        if order is not None and order.size == _columns(node_b) and (order != np.arange(order.size)).any():
            target = node_b if to_b else node_a
            found[str(target.name)] = order if to_b else np.argsort(order)
    return found


def _columns(node: ir.Node) -> int | None:
    """Number of inputs of an element of the output; of a convolution, all that is in its window."""
    shape = filter_shape(node)
    return None if shape is None else as_dense(shape)[1]
