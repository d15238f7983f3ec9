"""Differences that make no difference for the given weights and inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.chains import chain_from, form_of
from netweave.comparison.align.weights import filter_shape
from netweave.comparison.explain.causes import where
from netweave.comparison.explain.traps import Case
from netweave.comparison.explain.traps.attributes import attribute_traps
from netweave.comparison.explain.traps.constants import constant_traps
from netweave.comparison.result.comparison import Finding
from netweave.comparison.signals import constants_of
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.signals import Signals


MAX_FOLDED_ALONE = 3
"""So many normalisations that the other net lacks are named one by one."""


def latent_finding(
    alignment: Alignment, tensors_a: Mapping[str, np.ndarray], draft: Draft, *, turn: str
) -> Finding | None:
    """Return in what a group differs although its values agree; None if in nothing."""
    if [form_of(node) for node in draft.nodes[0]] != [form_of(node) for node in draft.nodes[1]]:
        return None  # cut differently, so that single arrays and settings must differ
    a, b = alignment.a, alignment.b
    read = [alignment.of_b[s] for n in draft.nodes[1] for s in b.inputs_of(n) if s in alignment.of_b]
    case = Case(
        a=a,
        b=b,
        nodes_a=tuple(draft.nodes[0]),
        nodes_b=tuple(draft.nodes[1]),
        turn=turn,
        mappings={pair.b: pair.mapping for pair in read if pair.mapping is not None},
        shapes_a={pair.a: tensors_a[pair.a].shape for pair in read},
    )
    proposals = [p for trap in (attribute_traps, constant_traps) for p in trap(case)]
    if not proposals:
        return None
    return _latent(
        alignment,
        (proposals[0].node_a, proposals[0].node_b),
        trap=" + ".join(dict.fromkeys(p.trap for p in proposals)),
        cause="; ".join(p.cause for p in proposals),
        fix="; ".join(p.fix for p in proposals),
    )


def hidden_by_copies(
    alignment: Alignment, draft: Draft, reordered: AbstractSet[str] = frozenset()
) -> Finding | None:
    """Return how two groups differ where copied weights make up for it; None if they do not.

    Args:
        alignment: Pairs of signals and nodes.
        draft: The group.
        reordered: Names of the dense nodes whose weights were copied with their columns in another order.
    """
    if any(str(node.name) in reordered for nodes in draft.nodes for node in nodes):
        return _latent(
            alignment,
            (draft.nodes[0][0], draft.nodes[1][0]),
            trap="flatten-order",
            cause="B flattens in another order than A, which the columns of its weights would have to follow",
            fix="flatten in A's order, or put the columns of A's weights in B's",
        )
    norms = [[node for node in nodes if node.op_type == "BatchNormalization"] for nodes in draft.nodes]
    if len(norms[0]) == len(norms[1]) == 1:
        return _fixed_gamma(alignment, (norms[0][0], norms[1][0]))
    return _folded(alignment, draft, norms)


def _fixed_gamma(alignment: Alignment, norms: tuple[ir.Node, ir.Node]) -> Finding | None:
    """Return that only one of two BatchNorms stores gammas; None if both do, or neither."""
    fixed = [_has_fixed_scale(s, norm) for s, norm in zip((alignment.a, alignment.b), norms, strict=True)]
    if fixed[0] == fixed[1]:
        return None
    lacks, stores = ("A", "B") if fixed[0] else ("B", "A")
    return _latent(
        alignment,
        norms,
        trap="fix-gamma",
        cause=f"{lacks} takes every gamma as 1 and stores none, {stores} stores them",
        fix="leave out the gammas in B" if fixed[0] else "store gammas in B",
    )


def _folded(alignment: Alignment, draft: Draft, norms: Sequence[list[ir.Node]]) -> Finding | None:
    """Return that only one of two filters has a BatchNorm behind it; None if that is not so."""
    heads = [[node for node in nodes if filter_shape(node) is not None] for nodes in draft.nodes]
    if bool(norms[0]) == bool(norms[1]) or not heads[0] or not heads[1] or all_folded(alignment):
        return None
    side = 0 if norms[0] else 1
    norm, _ = where((alignment.a, alignment.b)[side], norms[side][0])
    return _latent(
        alignment,
        ((norms[0] or heads[0])[0], (norms[1] or heads[1])[0]),
        trap="missing-layer",
        cause=f"{'AB'[side]} has {norm}, {'BA'[side]} has none, and would have to fold it into its weights",
        fix=f"add {norm} to B, or fold it into B's weights" if side == 0 else f"remove {norm} from B",
    )


def all_folded(alignment: Alignment) -> str:
    """Return the name of the net that has no normalisation where the other has many; empty if neither.

    Such a net has folded them all, which is one thing to say and not one for each layer.
    """
    counts = [
        sum(node.op_type == "BatchNormalization" for node in signals.nodes)
        for signals in (alignment.a, alignment.b)
    ]
    if 0 not in counts or max(counts) <= MAX_FOLDED_ALONE:
        return ""
    return "AB"[counts.index(0)]


def _latent(
    alignment: Alignment, nodes: tuple[ir.Node, ir.Node], *, trap: str, cause: str, fix: str
) -> Finding:
    layer_a, place_a = where(alignment.a, nodes[0])
    layer_b, place_b = where(alignment.b, nodes[1])
    return Finding(
        trap=trap,
        cause=cause,
        fix=fix,
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
        latent=True,
    )


def _has_fixed_scale(signals: Signals, node: ir.Node) -> bool:
    """Whether neither a BatchNorm nor a scaling behind it stores a gamma."""
    gammas = [constants_of(node).get(1)]
    for scaling in chain_from(signals, node)[1:]:
        gammas += constants_of(scaling).values() if scaling.op_type == "Mul" else []
    return not any(value is not None and source_keys(value) for value in gammas)
