"""Outputs that hold what they should, and not where they should: see ``align.output_order``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.comparison.align.output_order import counterpart, keeps_order, output_names
from netweave.comparison.explain.edits import edits_of
from netweave.comparison.explain.findings import finding_at, where
from netweave.comparison.explain.known_mismatches.order import LAYOUTS
from netweave.comparison.explain.wording import in_order_of_a
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.layout.words import describe
from netweave.comparison.metric import LOCAL_TOLERANCE

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment, SignalPair
    from netweave.comparison.layout.change import LayoutChange
    from netweave.comparison.result.comparison import Finding
    from netweave.comparison.side import Side


def misplaced_outputs(alignment: Alignment) -> dict[int, Finding]:
    """Return what is wrong with outputs of B that hold A's values, by ``id`` of the node of B to blame."""
    a, b = alignment.sides
    findings: dict[int, Finding] = {}
    names_b = output_names(b.signals)
    for name_a in output_names(a.signals):
        signal_a = a.signals.root.get(name_a, name_a)
        pair = a.pairs.get(signal_a)
        if pair is None or not pair.has_equal_values or pair.change is None:
            continue
        node = b.signals.producer.get(pair.b)
        name_b = counterpart(alignment, name_a, names_b)
        if not keeps_order(alignment, pair.change):
            origin = _origin(b, pair)
            findings.setdefault(id(origin), _reordered(alignment, origin, name_a, pair.change))
        elif node is not None and name_b is not None:
            signal_b = b.signals.root.get(name_b, name_b)
            if signal_b != pair.b and _differ(alignment, signal_a, signal_b):
                finding = _swapped(alignment, node, name_a, pair) or _replaced(
                    alignment, node, name_a, name_b
                )
                if finding is not None:
                    findings.setdefault(id(node), finding)
    return findings


def _differ(alignment: Alignment, signal_a: str, signal_b: str) -> bool:
    """Return whether two signals are known to hold different values."""
    x, y = alignment.a.tensors.get(signal_a), alignment.b.tensors.get(signal_b)
    if x is None or y is None:
        return False
    return solve_layout(x, y, tolerance=LOCAL_TOLERANCE, orientation=alignment.orientation) is None


def _origin(b: Side, pair: SignalPair) -> ir.Node | None:
    """Return the node of B from which on the entries of an output stand in another order than A's."""
    node = b.signals.producer.get(pair.b)
    while node is not None:
        moved = [
            signal
            for signal in b.signals.inputs_of(node)
            if (known := b.pairs.get(signal)) and known.change and known.change.channel_order
        ]
        before = b.signals.producer.get(moved[0]) if len(moved) == 1 else None
        if before is None:
            return node
        node = before
    return None


def _reordered(alignment: Alignment, node: ir.Node | None, output: str, change: LayoutChange) -> Finding:
    channels = change.channel_order
    order = describe(replace(change, axes=None, orders=((1, channels),)) if channels else change)
    joined = node is not None and node.op_type == "Concat"
    maker = "B" if node is None or node.op_type in LAYOUTS else f"B's {node.op_type}"
    return _finding(
        alignment,
        node,
        mismatch="input-order" if joined else "channel-order",
        cause=f"{maker} makes {order}, where A keeps them, and the net gives them so as {output!r}",
        fix=_in_order_of_a(alignment, node)
        if joined and node is not None
        else "put its channels in A's order",
    )


def _in_order_of_a(alignment: Alignment, node: ir.Node) -> str:
    a, b = alignment.sides
    node_a = b.partners.get(id(node))
    parts_a = a.signals.inputs_of(node_a) if node_a is not None else []
    pairs = [b.pairs.get(part) for part in b.signals.inputs_of(node)]
    return in_order_of_a(node, parts_a, [pair.a if pair is not None else None for pair in pairs])


def _swapped(alignment: Alignment, node: ir.Node, output: str, pair: SignalPair) -> Finding | None:
    """Return that B gives A's output under another name; None if it is no output of B."""
    b = alignment.b.signals
    names = [name for name in output_names(b) if b.root.get(name, name) == pair.b]
    if not names:
        return None
    return _finding(
        alignment,
        node,
        mismatch="output-order",
        cause=f"B gives as {names[0]!r} what A gives as {output!r}",
        fix=f"give it as {output!r}",
    )


def _replaced(alignment: Alignment, node: ir.Node, output: str, name_b: str) -> Finding | None:
    """Return that B gives another layer of A's in the place of an output; None if it gives what A lacks.

    What A lacks is made by nodes that are judged themselves: where B goes on behind A's output, as detectors
    with post-processing do, they are what differs.
    """
    b = alignment.b.signals
    signal = b.root.get(name_b, name_b)
    pair = alignment.b.pairs.get(signal)
    if pair is None or not pair.has_equal_values:
        return None
    producers = [b.producer.get(signal), node]
    layers = [where(b, each)[0] if each is not None else signal for each in producers]
    return _finding(
        alignment,
        node,
        mismatch="output",
        cause=f"B gives as {name_b!r} what {layers[0]!r} makes; what A gives as {output!r} is made by "
        f"{layers[1]!r}, which is no output of B",
        fix=f"give what {layers[1]!r} makes as {output!r}",
    )


def _finding(alignment: Alignment, node: ir.Node | None, *, mismatch: str, cause: str, fix: str) -> Finding:
    a, b = alignment.sides
    node_a = b.partners.get(id(node)) if node is not None else None
    return finding_at(
        (a.signals, node_a), (b.signals, node), mismatch=mismatch, cause=cause, fix=fix, edits=edits_of([fix])
    )
