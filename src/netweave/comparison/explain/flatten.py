"""In which order two nets flatten a tensor before a dense layer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.explain.known_mismatches.mismatch import Case
    from netweave.comparison.metric import Signals


KEEP_ORDER = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""Views that leave the elements in their order."""


def column_order(case: Case, node_a: ir.Node, node_b: ir.Node) -> np.ndarray | None:
    """Return, for each input of B's dense node, which input of A's dense node holds the same element.

    None if either reads no views, or the order cannot be found.
    """
    name_a, name_b = flattened(case.a, node_a), flattened(case.b, node_b)
    if name_a is None or name_b is None:
        return None
    return _order(case, node_a, node_b, name_a, name_b)


def flattened(signals: Signals, node: ir.Node) -> str | None:
    """Return the signal that a dense node reads, through whatever views."""
    value = node.inputs[0]
    return signals.root.get(str(value.name)) if value is not None else None


def _order(case: Case, node_a: ir.Node, node_b: ir.Node, name_a: str, name_b: str) -> np.ndarray | None:
    change = case.changes.get(name_b)
    shape = case.shapes_a.get(name_a)
    if change is None or shape is None:
        return None
    count = int(np.prod(shape[1:]))
    if count >= 1 << 24:
        return None
    elements = np.arange(count, dtype=np.float32).reshape(1, *shape[1:])
    try:
        flat_a = _through_views(case.a, node_a, name_a, elements)
        flat_b = _through_views(case.b, node_b, name_b, change.apply(elements))
    except NetweaveError:
        return None
    if flat_a.shape != flat_b.shape:
        return None
    place = np.empty(count, dtype=np.int64)
    place[flat_a] = np.arange(count)
    order: np.ndarray = place[flat_b]
    return order


def _through_views(signals: Signals, node: ir.Node, name: str, elements: np.ndarray) -> np.ndarray:
    """Return the numbers of the elements in the order in which a node reads them."""
    value = node.inputs[0]
    if value is None or _keep_order(value, name):
        return elements.reshape(-1).astype(np.int64)
    builder = SubgraphBuilder(signals)
    builder.add_views(value, {name: elements.shape})
    from netweave.runtime.backends import prepare

    computed = prepare(builder.finish()).run({name: elements})
    return computed[str(value.name)].reshape(-1).astype(np.int64)


def _keep_order(value: ir.Value, name: str) -> bool:
    """Return whether the views between a signal and a value move no element; most do not, and need no run."""
    while value.name != name:
        node = value.producer()
        if node is None or node.domain or node.op_type not in KEEP_ORDER or node.inputs[0] is None:
            return False
        value = node.inputs[0]
    return True
