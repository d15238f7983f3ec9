"""Changes of a layer's filters: reoriented, or with their channels reordered."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import filters_of, outputs_first
from netweave.comparison.layout.filters import INPUTS, OUTPUTS, are_same, match_filters
from netweave.comparison.layout.orientation import SWAPPED, inverse
from netweave.comparison.layout.words import listed_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.explain.known_mismatches.mismatch import Case

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
    """Return the key and the words of the mismatch that reoriented or reordered filters; None if none did.

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
    match = match_filters(outputs_first(node_b, wanted), filters_b)
    if match is None or not match.is_equal:
        return None
    orientation, inputs = match.change.orientation, match.change.order_along(INPUTS)
    if orientation:
        left_out = bool(case.orientation) and orientation == inverse(case.orientation)
        return (
            "axis-order",
            f"the filters of B are A's, {_not(case.orientation) if left_out else orientation}",
        )
    if inputs is not None and is_dense:
        if is_flatten_order(inputs):
            return "flatten-order", "B's dense weights expect their inputs in another order (flatten order)"
        return "column-order", f"B's dense weights have their inputs in another order: {_moved(inputs)}"
    if inputs is not None:
        return "channel-order", f"B's filters have A's input channels {listed_order(inputs)}"
    outputs = match.change.order_along(OUTPUTS)
    if outputs is not None:
        return (
            "channel-order",
            f"the output channels of B's filters are in the order {listed_order(outputs)}",
        )
    return None


def is_flatten_order(order: Sequence[int]) -> bool:
    """Return whether an order is that of an image's axes flattened otherwise.

    >>> is_flatten_order([0, 2, 4, 1, 3, 5]), is_flatten_order([0, 4, 2, 3, 1, 5])
    (True, False)
    """
    count, wanted = len(order), np.asarray(order)
    own = np.arange(count)
    factors = [size for size in range(1, count + 1) if count % size == 0]
    for first in factors:
        for second in (size for size in factors if (count // first) % size == 0):
            image = own.reshape(first, second, -1)
            if any(
                np.array_equal(image.transpose(axes).reshape(-1), wanted)
                for axes in itertools.permutations(range(3))
            ):
                return True
    return False


def _moved(order: Sequence[int]) -> str:
    """Say which entries of an order have moved."""
    moved = [i for i, source in enumerate(order) if source != i]
    if len(moved) == 2:
        return f"columns {moved[0]} and {moved[1]} are swapped"
    return f"{len(moved):,} of {len(order):,} columns are moved, {moved[0]} from {order[moved[0]]}"


def _not(orientation: str) -> str:
    """Say that filters were left out when the others were reoriented."""
    omitted = "not swapped in height and width" if orientation == SWAPPED else f"not {orientation}"
    return f"{omitted}, as the other layers are"
