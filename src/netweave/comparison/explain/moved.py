"""Layers that stand at another place in the other net: alone in A here and alone in B there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.explain.causes import where
from netweave.comparison.explain.traps.attributes import differences

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.signals import Signals


def find_moved(alignment: Alignment, drafts: Sequence[Draft]) -> dict[int, str]:
    """Return where the node of a draft that only one net has stands in the other: words by ``id``."""
    alone = [[d for d in drafts if not d.nodes[1 - side] and len(d.nodes[side]) == 1] for side in (0, 1)]
    found: dict[int, str] = {}
    for draft_a in alone[0]:
        node_a = draft_a.nodes[0][0]
        draft_b = next((d for d in alone[1] if id(d) not in found and _alike(node_a, d.nodes[1][0])), None)
        if draft_b is not None:
            text = _words(alignment, node_a, draft_b.nodes[1][0])
            found[id(draft_a)] = found[id(draft_b)] = text
    return found


def _alike(a: ir.Node, b: ir.Node) -> bool:
    return a.op_type == b.op_type and a.domain == b.domain and not differences(a, b)


def _words(alignment: Alignment, node_a: ir.Node, node_b: ir.Node) -> str:
    name_a, name_b = where(alignment.a, node_a)[0], where(alignment.b, node_b)[0]
    name = name_a if name_a == name_b else f"{name_a} / {name_b}"
    places = []
    for side, signals, node in (("A", alignment.a, node_a), ("B", alignment.b, node_b)):
        before = _neighbour(signals, node)
        places.append(f"after {before} in {side}" if before else f"first in {side}")
    return f"{name} stands {places[0]} and {places[1]}"


def _neighbour(signals: Signals, node: ir.Node) -> str:
    for signal in signals.inputs_of(node):
        made = signals.producer.get(signal)
        if made is not None:
            return where(signals, made)[0]
    return ""
