"""Layers that stand at another place in the other net: alone in A here and alone in B there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.explain.findings import where
from netweave.comparison.explain.known_mismatches.attributes import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.signals import Signals


def find_moved(alignment: Alignment, drafts: Sequence[Draft]) -> dict[int, str]:
    """Return where the node of a draft that only one net has stands in the other: words by ``id``."""
    only_a = [draft for draft in drafts if not draft.nodes_b and len(draft.nodes_a) == 1]
    only_b = [draft for draft in drafts if not draft.nodes_a and len(draft.nodes_b) == 1]
    moved: dict[int, str] = {}
    for draft_a in only_a:
        node_a = draft_a.nodes_a[0]
        draft_b = next((d for d in only_b if id(d) not in moved and _alike(node_a, d.nodes_b[0])), None)
        if draft_b is not None:
            moved[id(draft_a)] = moved[id(draft_b)] = _words(alignment, node_a, draft_b.nodes_b[0])
    return moved


def _alike(a: ir.Node, b: ir.Node) -> bool:
    return a.op_type == b.op_type and a.domain == b.domain and not differences(a, b)


def _words(alignment: Alignment, node_a: ir.Node, node_b: ir.Node) -> str:
    a, b = alignment.sides
    name_a, name_b = where(a.signals, node_a)[0], where(b.signals, node_b)[0]
    name = name_a if name_a == name_b else f"{name_a} / {name_b}"
    places = []
    for side, node in ((a, node_a), (b, node_b)):
        before = _neighbour(side.signals, node)
        places.append(f"after {before} in {side.name}" if before else f"first in {side.name}")
    return f"{name} stands {places[0]} and {places[1]}"


def _neighbour(signals: Signals, node: ir.Node) -> str:
    for signal in signals.inputs_of(node):
        producer = signals.producer.get(signal)
        if producer is not None:
            return where(signals, producer)[0]
    return ""
