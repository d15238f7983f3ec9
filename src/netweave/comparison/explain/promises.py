"""Outputs that hold what they should, and not where they should: see ``align.contract``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.comparison.align.contract import counterpart, keeps_order, output_names
from netweave.comparison.align.layout import solve_layout
from netweave.comparison.align.wording import describe_axes
from netweave.comparison.explain.causes import where
from netweave.comparison.explain.traps.order import LAYOUTS
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import Evidence, Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment, SignalPair
    from netweave.comparison.result.comparison import TensorMapping


def broken_promises(
    alignment: Alignment, tensors_a: Mapping[str, np.ndarray], tensors_b: Mapping[str, np.ndarray]
) -> dict[int, Finding]:
    """Return what is wrong with outputs of B that hold A's values, by ``id`` of the node of B to blame."""
    found: dict[int, Finding] = {}
    names_b = output_names(alignment.b)
    for name_a in output_names(alignment.a):
        signal = alignment.a.root.get(name_a, name_a)
        pair = alignment.of_a.get(signal)
        if pair is None or pair.evidence is not Evidence.VALUES or pair.mapping is None:
            continue
        node = alignment.b.producer.get(pair.b)
        name_b = counterpart(alignment, name_a, names_b)
        if not keeps_order(alignment, pair.mapping):
            origin = _origin(alignment, pair)
            found.setdefault(id(origin), _reordered(alignment, origin, name_a, pair.mapping))
        elif node is not None and name_b is not None and alignment.b.root.get(name_b, name_b) != pair.b:
            x, y = tensors_a.get(signal), tensors_b.get(alignment.b.root.get(name_b, name_b))
            if x is not None and y is not None and not _agree(x, y, alignment.turn):
                finding = _swapped(alignment, node, name_a, pair) or _replaced(
                    alignment, node, name_a, name_b
                )
                if finding is not None:
                    found.setdefault(id(node), finding)
    return found


def _agree(x: np.ndarray, y: np.ndarray, turn: str) -> bool:
    return solve_layout(x, y, tolerance=LOCAL_TOLERANCE, turn=turn) is not None


def _origin(alignment: Alignment, pair: SignalPair) -> ir.Node | None:
    """Return the node of B from which on the entries of an output stand in another order than A's."""
    node = alignment.b.producer.get(pair.b)
    while node is not None:
        moved = [
            signal
            for signal in alignment.b.inputs_of(node)
            if (known := alignment.of_b.get(signal)) and known.mapping and known.mapping.channel_order
        ]
        before = alignment.b.producer.get(moved[0]) if len(moved) == 1 else None
        if before is None:
            return node
        node = before
    return None


def _reordered(alignment: Alignment, node: ir.Node | None, output: str, mapping: TensorMapping) -> Finding:
    channels = mapping.channel_order
    order = describe_axes(replace(mapping, axes=None, orders=((1, channels),)) if channels else mapping)
    joined = node is not None and node.op_type == "Concat"
    made = "B" if node is None or node.op_type in LAYOUTS else f"B's {node.op_type}"
    return _finding(
        alignment,
        node,
        trap="input-order" if joined else "channel-order",
        cause=f"{made} makes {order}, where A keeps them, and the net gives them so as {output!r}",
        fix="put its inputs in A's order" if joined else "put its channels in A's order",
    )


def _swapped(alignment: Alignment, node: ir.Node, output: str, pair: SignalPair) -> Finding | None:
    """Return that B gives A's output under another name; None if it is no output of B."""
    names = [name for name in output_names(alignment.b) if alignment.b.root.get(name, name) == pair.b]
    if not names:
        return None
    return _finding(
        alignment,
        node,
        trap="output-order",
        cause=f"B gives as {names[0]!r} what A gives as {output!r}",
        fix=f"give it as {output!r}",
    )


def _replaced(alignment: Alignment, node: ir.Node, output: str, name_b: str) -> Finding | None:
    """Return that B gives another layer of A's in the place of an output; None if it gives what A lacks.

    What A lacks is made by nodes that are judged themselves: where B goes on behind A's output, as detectors
    with post-processing do, they are what differs.
    """
    signal = alignment.b.root.get(name_b, name_b)
    pair = alignment.of_b.get(signal)
    if pair is None or pair.evidence is not Evidence.VALUES:
        return None
    made = [alignment.b.producer.get(signal), node]
    layers = [where(alignment.b, each)[0] if each is not None else signal for each in made]
    return _finding(
        alignment,
        node,
        trap="output",
        cause=f"B gives as {name_b!r} what {layers[0]!r} makes; what A gives as {output!r} is made by "
        f"{layers[1]!r}, which is no output of B",
        fix=f"give what {layers[1]!r} makes as {output!r}",
    )


def _finding(alignment: Alignment, node: ir.Node | None, *, trap: str, cause: str, fix: str) -> Finding:
    node_a = alignment.node_of_b.get(id(node)) if node is not None else None
    layer_a, place_a = where(alignment.a, node_a) if node_a is not None else ("", "")
    layer_b, place_b = where(alignment.b, node) if node is not None else ("", "")
    return Finding(
        trap=trap,
        cause=cause,
        fix=fix,
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
    )
