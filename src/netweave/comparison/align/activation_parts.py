"""Nodes that are part of an activation which the other net has as one operator.

TensorFlow writes PReLU as ``relu(x) + c * relu(-x)``. Where nothing is negative, its first part already holds
the values of the whole, so values pair that part with the other net's PRelu, and the rest belongs to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import ELEMENTWISE

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.side import Side

MAX_STEPS = 6
"""Nodes of such an activation, at most, between what it reads and the sum that ends it."""


def release_parts(alignment: Alignment) -> None:
    """Take pairs apart, in place, of which one node is only part of an activation."""
    for node_a in alignment.a.signals.nodes:
        node_b = alignment.a.partners.get(id(node_a))
        if node_b is None or node_a.op_type == node_b.op_type:
            continue
        if alignment.evidence[id(node_a)] is not Evidence.VALUES:
            continue
        if not {node_a.op_type, node_b.op_type} <= ELEMENTWISE:
            continue
        if _is_part(alignment.a, node_a) or _is_part(alignment.b, node_b):
            alignment.release_nodes(node_a, node_b)


def _is_part(side: Side, node: ir.Node) -> bool:
    """Return whether an unmatched node joins a node's output with another value of the same input."""
    signals = side.signals
    read = set(signals.inputs_of(node))
    outputs = signals.outputs_of(node)
    readers = [reader for name in outputs for reader in signals.consumers.get(name, ())]
    for reader in readers:
        if not _is_free(side, reader):
            continue
        others = [name for name in signals.inputs_of(reader) if name not in outputs]
        for _ in range(MAX_STEPS):
            if not read.isdisjoint(others):
                return True
            makers = [signals.producer[name] for name in others if name in signals.producer]
            free = [maker for maker in makers if _is_free(side, maker)]
            others = [name for maker in free for name in signals.inputs_of(maker)]
    return False


def _is_free(side: Side, node: ir.Node) -> bool:
    return not side.is_paired(node) and node.op_type in ELEMENTWISE
