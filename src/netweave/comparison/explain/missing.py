"""Findings on nodes that only one of the two nets has."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.comparison.align.weights import filters_of
from netweave.comparison.explain.edits import edits_of
from netweave.comparison.explain.findings import finding_at, where
from netweave.comparison.explain.returned import function_of_output
from netweave.comparison.explain.wording import activation_setting
from netweave.comparison.names import list_stretch
from netweave.comparison.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.result.comparison import Finding
    from netweave.comparison.side import Side


def missing_finding(
    alignment: Alignment, side: Side, nodes: Sequence[ir.Node], *, moved: str | None, latent: bool | None
) -> Finding:
    """Return what is wrong where one net has nodes and the other has none.

    Args:
        alignment: Pairs of signals and nodes.
        side: The net that has them.
        nodes: The nodes.
        moved: Where the other net has the same layer, in words, if it has.
        latent: Whether the nodes change nothing; None if that is not known.
    """
    biased = None if moved else _biased(side, nodes)
    if biased is not None:
        return _missing_bias(alignment, side, (nodes[0], biased), latent=bool(latent))
    written = None if moved else _written_with_the_layer(alignment, side, nodes)
    if written is not None:
        fix, node_b = written
        return finding_at(
            (alignment.a.signals, nodes[0] if side.is_a else None),
            (alignment.b.signals, node_b),
            mismatch="missing-layer",
            cause=f"{side.name} computes {nodes[0].op_type} here, {side.other_name} does not",
            fix=fix,
            edits=edits_of([fix]),
            latent=bool(latent),
        )
    names = list_stretch(where(side.signals, node)[0] for node in nodes)
    last = None if moved or not side.is_a else function_of_output(alignment, nodes)
    if last is not None:
        return replace(
            finding_at(
                (alignment.a.signals, nodes[0]),
                (alignment.b.signals, None),
                mismatch="missing-layer",
                cause=f"A has {names} here, B has nothing{_after(alignment, side, nodes[0])}",
                fix=f"add {names} to B: {last.words}",
                latent=bool(latent),
                edits=(last.edit,),
            ),
            place_b=str(alignment.b.source.returned),
        )
    remedy = f"add {names} to B" if side.is_a else f"remove {names} from B"
    alone = f"{side.name} has {names} here, {side.other_name} has nothing{_after(alignment, side, nodes[0])}"
    unknown = f"; {side.name} was not run, so what they do was not compared" if latent is None else ""
    return finding_at(
        (alignment.a.signals, nodes[0] if side.is_a else None),
        (alignment.b.signals, None if side.is_a else nodes[0]),
        mismatch="layer-order" if moved else "missing-layer",
        cause=moved or alone + unknown,
        fix="put it where A has it" if moved else remedy,
        latent=bool(latent),
    )


def _written_with_the_layer(
    alignment: Alignment, side: Side, nodes: Sequence[ir.Node]
) -> tuple[str, ir.Node] | None:
    """Return the setting of B's layer that says whether it has an activation, and B's node of that layer."""
    signals_b = alignment.b.signals
    if len(nodes) != 1 or not activation_setting(signals_b.graph.format, nodes[0]):
        return None
    node_b = _producer(alignment, side, nodes[0]) if side.is_a else nodes[0]
    layers = signals_b.graph.layers_of(node_b) if node_b is not None else ()
    if node_b is None or not layers or layers[0].type == "activation":
        return None
    return activation_setting(signals_b.graph.format, nodes[0] if side.is_a else None), node_b


def _producer(alignment: Alignment, side: Side, node: ir.Node) -> ir.Node | None:
    """Return the other net's node that makes what a node reads; None if it is not known."""
    pairs = [side.pairs[signal] for signal in side.signals.inputs_of(node) if signal in side.pairs]
    if len(pairs) != 1:
        return None
    return alignment.other(side).signals.producer.get(pairs[0].b if side.is_a else pairs[0].a)


def _after(alignment: Alignment, side: Side, node: ir.Node) -> str:
    """Say which layer of the other net makes what a node reads; nothing if none is known."""
    producer = _producer(alignment, side, node)
    return f" after {where(alignment.other(side).signals, producer)[0]}" if producer is not None else ""


def _biased(side: Side, nodes: Sequence[ir.Node]) -> ir.Node | None:
    """Return the other net's filter that lacks a bias, if that is all that the nodes are."""
    signals = side.signals
    if len(nodes) != 1 or nodes[0].op_type != "Add" or family_of(nodes[0]) != "affine":
        return None
    read = signals.inputs_of(nodes[0])
    filters = signals.producer.get(read[0]) if len(read) == 1 else None
    if filters is None or filters_of(filters) is None:
        return None
    return side.partners.get(id(filters))


def _missing_bias(
    alignment: Alignment, side: Side, nodes: tuple[ir.Node, ir.Node], *, latent: bool
) -> Finding:
    """Return that one net's filter lacks a bias: the nodes are the other's bias, and the filter."""
    node_a, node_b = nodes if side.is_a else nodes[::-1]
    return finding_at(
        (alignment.a.signals, node_a),
        (alignment.b.signals, node_b),
        mismatch="missing-bias",
        cause=f"{side.name} has a bias, {side.other_name} has none",
        fix="give B's layer A's bias" if side.is_a else "take the bias from B's layer",
        latent=latent,
    )
