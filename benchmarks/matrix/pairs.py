"""Two frameworks' own nets of one name: the weights of one are carried over to the other, and both compared.

A softmax at the end of one alone is left out, as porters do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import netweave
from benchmarks.matrix.nets import ORDER, OTHERS
from netweave import api
from netweave.errors import NetweaveError
from netweave.graph.passes.extraction import extract

if TYPE_CHECKING:
    from benchmarks.matrix.theirs import Their


def partner(net: str, format_: str, formats: list[str]) -> str | None:
    """Return the format whose weights a net is given; None if it is the one whose weights others get.

    Nets that are the same form a star around the first of them, and the first of those that are another net
    is held against the first of all: so any two are known to be the same, or not.

    Args:
        net: Key of the net.
        format_: The format to give weights to.
        formats: All formats whose frameworks made the net.
    """
    ordered = [other for other in ORDER if other in formats]
    main = next((other for other in ordered if (net, other) not in OTHERS), ordered[0])
    alike = [other for other in ordered if OTHERS.get((net, other)) == OTHERS.get((net, format_))]
    first = main if main in alike else alike[0]
    if format_ != first:
        return first
    return None if first == main else main


def difference(net: str, a: str, b: str) -> str | None:
    """Return what its authors changed in the second of a pair; None if it is the same net."""
    changed = OTHERS.get((net, b))
    return None if changed == OTHERS.get((net, a)) else changed


def check(a: Callable[[], netweave.Graph], b: Their, *, changed: str | None) -> dict[str, Any]:
    """Carry weights from one net to the other, or back where that alone is possible, and compare.

    Args:
        a: Reads the net whose weights are carried.
        b: The net that takes them.
        changed: What is known to be another in it: then there is no way back to try.
    """
    first, second = _without_softmax(a(), b.load())
    reasons = []
    ways = [(first, second, "to B"), (second, first, "to A")]
    for net, port, way in ways if changed is None else ways[:1]:
        try:
            filled = netweave.transfer_weights(net, port)
        except NetweaveError as error:
            reasons.append(" ".join(str(error).split()))
            continue
        found = netweave.compare(net, filled)
        return {"ok": found.equal, "error": found.error, "said": found.sentence, "facts": {"way": way}}
    return {"ok": False, "said": reasons[0], "facts": {"back": reasons[1]} if reasons[1:] else {}}


def _without_softmax(a: netweave.Graph, b: netweave.Graph) -> tuple[netweave.Graph, netweave.Graph]:
    graphs = [api.to_inference(graph) for graph in (a, b)]
    ends = [_softmax(graph) for graph in graphs]
    if (ends[0] is None) == (ends[1] is None):
        return graphs[0], graphs[1]
    cut = [graph if end is None else _until(graph, end) for graph, end in zip(graphs, ends, strict=True)]
    return cut[0], cut[1]


def _softmax(graph: netweave.Graph) -> str | None:
    """Return what the softmax reads that a net ends with."""
    made = graph.outputs[0].producer() if len(graph.outputs) == 1 else None
    is_softmax = made is not None and made.op_type == "Softmax"
    return str(made.inputs[0].name) if is_softmax else None


def _until(graph: netweave.Graph, end: str) -> netweave.Graph:
    return extract(graph, inputs=[str(value.name) for value in graph.inputs], outputs=[end])
