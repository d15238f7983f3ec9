"""What is said of nodes that only one of the two nets has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.weights import filters_of
from netweave.comparison.explain.causes import where
from netweave.comparison.result.comparison import Finding
from netweave.comparison.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment

MAX_NAMES = 3
"""More layers than this are named by the first and the last."""

SIDES = ("A", "B")


def missing_finding(
    alignment: Alignment, nodes: Sequence[ir.Node], *, side: int, moved: str | None, latent: bool | None
) -> Finding:
    """Return what is wrong where one net has nodes and the other has none.

    Args:
        alignment: Pairs of signals and nodes.
        nodes: The nodes.
        side: 0 if A has them, 1 if B has.
        moved: Where the other net has the same layer, in words, if it has.
        latent: Whether the nodes change nothing; None if that is not known.
    """
    biased = None if moved else _biased(alignment, nodes, side)
    if biased is not None:
        return _missing_bias(alignment, nodes[0], biased, side=side, latent=bool(latent))
    signals = (alignment.a, alignment.b)[side]
    names = _listed(dict.fromkeys(where(signals, node)[0] for node in nodes))
    mine, other = SIDES[side], SIDES[1 - side]
    remedy = f"add {names} to B" if side == 0 else f"remove {names} from B"
    layer, place = where(signals, nodes[0])
    alone = f"{mine} has {names} here, {other} has nothing{_behind(alignment, nodes[0], side)}"
    unknown = f"; {mine} was not run, so what they do was not compared" if latent is None else ""
    return Finding(
        trap="layer-order" if moved else "missing-layer",
        cause=moved or alone + unknown,
        fix="put it where A has it" if moved else remedy,
        place_a=place if side == 0 else "",
        place_b=place if side == 1 else "",
        layer_a=layer if side == 0 else "",
        layer_b=layer if side == 1 else "",
        latent=bool(latent),
    )


def _behind(alignment: Alignment, node: ir.Node, side: int) -> str:
    """Say which layer of the other net makes what a node reads; nothing if none is known."""
    signals, other = (alignment.a, alignment.b)[side], (alignment.a, alignment.b)[1 - side]
    known = (alignment.of_a, alignment.of_b)[side]
    pairs = [known[signal] for signal in signals.inputs_of(node) if signal in known]
    made = other.producer.get(pairs[0].b if side == 0 else pairs[0].a) if len(pairs) == 1 else None
    return f" behind {where(other, made)[0]}" if made is not None else ""


def _biased(alignment: Alignment, nodes: Sequence[ir.Node], side: int) -> ir.Node | None:
    """Return the other net's filter that lacks a bias, if that is all that the nodes are."""
    signals = (alignment.a, alignment.b)[side]
    if len(nodes) != 1 or nodes[0].op_type != "Add" or family_of(nodes[0]) != "affine":
        return None
    read = signals.inputs_of(nodes[0])
    filters = signals.producer.get(read[0]) if len(read) == 1 else None
    if filters is None or filters_of(filters) is None:
        return None
    return alignment.partner(filters) if side == 0 else alignment.node_of_b.get(id(filters))


def _missing_bias(
    alignment: Alignment, bias: ir.Node, filters: ir.Node, *, side: int, latent: bool
) -> Finding:
    node_a, node_b = (bias, filters) if side == 0 else (filters, bias)
    layer_a, place_a = where(alignment.a, node_a)
    layer_b, place_b = where(alignment.b, node_b)
    return Finding(
        trap="missing-bias",
        cause=f"{SIDES[side]} has a bias, {SIDES[1 - side]} has none",
        fix="give B's layer A's bias" if side == 0 else "take the bias from B's layer",
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
        latent=latent,
    )


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return f"{names[0]} to {names[-1]} ({len(names)} layers)"
