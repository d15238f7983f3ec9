"""What was done to the filters of a layer: turned, or their channels reordered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.relation import are_same, relate
from netweave.comparison.align.turns import SWAPPED, inverse
from netweave.comparison.align.weights import filters_of, outputs_first

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.explain.traps.trap import Case

DENSE = frozenset({"Gemm", "MatMul"})
"""Operators of dense layers."""


def in_input_order(filters: np.ndarray, order: Sequence[int]) -> np.ndarray:
    """Return the filters of a convolution for input channels in another order.

    Those of a grouped one are reordered group by group, and left as they are where the order leads out of a
    group: no convolution in groups does the same then.
    """
    depth = filters.shape[1]
    num_groups = len(order) // depth
    if len(order) % depth or len(filters) % num_groups:
        return filters
    parts = []
    for group, rows in enumerate(np.split(filters, num_groups)):
        inner = [channel - group * depth for channel in order[group * depth : (group + 1) * depth]]
        if not all(0 <= channel < depth for channel in inner):
            return filters
        parts.append(rows[:, inner])
    return np.concatenate(parts)


def say_filters(case: Case, node_a: ir.Node, node_b: ir.Node, wanted: np.ndarray) -> tuple[str, str] | None:
    """Return the key and the words of the trap that turned or reordered filters; None if it is none.

    Args:
        case: The case.
        node_a: A's node.
        node_b: B's node.
        wanted: What B's filters should be, as its node stores them.
    """
    filters_a, filters_b = filters_of(node_a), filters_of(node_b)
    if filters_a is None or filters_b is None:
        return None
    is_dense = node_a.op_type in DENSE
    if is_dense and are_same(filters_a, filters_b):
        return "flatten-order", "B flattens in another order (H, W, C for C, H, W), its dense weights do not"
    found = relate(outputs_first(node_b, wanted), filters_b)
    if found is None or not found.is_equal:
        return None
    if found.turn:
        left_out = bool(case.turn) and found.turn == inverse(case.turn)
        return "axis-order", f"the filters of B are A's, {_not(case.turn) if left_out else found.turn}"
    if found.in_order is not None and is_dense:
        return "flatten-order", "B's dense weights expect their inputs in another order (flatten order)"
    if found.in_order is not None:
        return "channel-order", f"B's filters have A's input channels {_short(found.in_order)}"
    if found.out_order is not None:
        return (
            "channel-order",
            f"the output channels of B's filters are in the order {_short(found.out_order)}",
        )
    return None


def _not(turn: str) -> str:
    """Say that filters were left out when the others were turned."""
    said = "not swapped in height and width" if turn == SWAPPED else f"not {turn}"
    return f"{said}, as the other layers are"


def _short(order: Sequence[int]) -> str:
    return ", ".join(map(str, order[:8])) + (", ..." if len(order) > 8 else "")
