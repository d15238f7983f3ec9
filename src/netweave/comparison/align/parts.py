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

MAX_STEPS = 6
"""Nodes of such an activation, at most, between what it reads and the sum that ends it."""


def release_parts(alignment: Alignment) -> None:
    """Take pairs apart, in place, of which one node is only part of an activation."""
    for node_a in alignment.a.nodes:
        node_b, evidence = alignment.node_of_a.get(id(node_a), (None, None))
        if node_b is None or evidence is not Evidence.VALUES or node_a.op_type == node_b.op_type:
            continue
        if not {node_a.op_type, node_b.op_type} <= ELEMENTWISE:
            continue
        if _is_part(alignment, 0, node_a) or _is_part(alignment, 1, node_b):
            _release(alignment, node_a, node_b)


def _is_part(alignment: Alignment, side: int, node: ir.Node) -> bool:
    """Whether what a node makes meets, in a node without partner, something else made of what it reads."""
    signals = (alignment.a, alignment.b)[side]
    read = set(signals.inputs_of(node))
    made = signals.outputs_of(node)
    readers = [reader for name in made for reader in signals.consumers.get(name, ())]
    for reader in readers:
        if not _is_free(alignment, side, reader):
            continue
        others = [name for name in signals.inputs_of(reader) if name not in made]
        for _ in range(MAX_STEPS):
            if not read.isdisjoint(others):
                return True
            makers = [signals.producer[name] for name in others if name in signals.producer]
            free = [maker for maker in makers if _is_free(alignment, side, maker)]
            others = [name for maker in free for name in signals.inputs_of(maker)]
    return False


def _is_free(alignment: Alignment, side: int, node: ir.Node) -> bool:
    known = (alignment.node_of_a, alignment.node_of_b)[side]
    return id(node) not in known and node.op_type in ELEMENTWISE


def _release(alignment: Alignment, node_a: ir.Node, node_b: ir.Node) -> None:
    del alignment.node_of_a[id(node_a)], alignment.node_of_b[id(node_b)]
    for name in alignment.a.outputs_of(node_a):
        pair = alignment.of_a.get(name)
        if pair is not None and pair.b in alignment.b.outputs_of(node_b):
            del alignment.of_a[name], alignment.of_b[pair.b]
