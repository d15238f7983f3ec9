"""Differences that make no difference for the given weights and inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.align.chains import chain_from, form_of
from netweave.comparison.align.weights import count_norms, filter_shape
from netweave.comparison.explain.findings import finding_at, where
from netweave.comparison.explain.known_mismatches import Case
from netweave.comparison.explain.known_mismatches.attributes import attribute_mismatches
from netweave.comparison.explain.known_mismatches.constants import constant_mismatches
from netweave.comparison.explain.wording import bias_setting
from netweave.comparison.metric import constants_of
from netweave.graph.parameters import source_keys
from netweave.graph.summary import joined_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.value_matching import Draft
    from netweave.comparison.layout.change import LayoutChange
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side
    from netweave.comparison.result.comparison import Finding

MAX_FOLDED_ALONE = 3
"""So many normalisations that the other net lacks are named one by one."""


def latent_finding(
    alignment: Alignment, draft: Draft, layouts: Mapping[str, LayoutChange] | None = None
) -> Finding | None:
    """Return in what a group differs although its values agree; None if in nothing.

    Args:
        alignment: Pairs of signals and nodes.
        draft: The group.
        layouts: In which layouts B's nodes agreed with A's when they were run on A's values, by B's signal;
            leave it out where their own values agree, which tell the layouts.
    """
    if [form_of(node) for node in draft.nodes_a] != [form_of(node) for node in draft.nodes_b]:
        return None  # split differently, so that single arrays and settings must differ
    a, b = alignment.sides
    read = [b.pairs[s] for n in draft.nodes_b for s in b.signals.inputs_of(n) if s in b.pairs]
    case = Case(
        a=a.signals,
        b=b.signals,
        nodes_a=tuple(draft.nodes_a),
        nodes_b=tuple(draft.nodes_b),
        orientation=alignment.orientation,
        changes={pair.b: pair.change for pair in read if pair.change is not None} | dict(layouts or {}),
        shapes_a={pair.a: shape for pair in read if (shape := a.tensors.shape_of(pair.a)) is not None},
        known=b.pairs,
    )
    proposals = [p for propose in (attribute_mismatches, constant_mismatches) for p in propose(case)]
    if not proposals:
        return None
    return _latent(
        alignment,
        (proposals[0].node_a, proposals[0].node_b),
        mismatch=" + ".join(dict.fromkeys(p.mismatch for p in proposals)),
        cause="; ".join(p.cause for p in proposals),
        fix=joined_text(p.fix for p in proposals),
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
    if any(str(node.name) in reordered for node in (*draft.nodes_a, *draft.nodes_b)):
        return _latent(
            alignment,
            (draft.nodes_a[0], draft.nodes_b[0]),
            mismatch="flatten-order",
            cause="B flattens in another order than A, which the columns of its weights would have to follow",
            fix="flatten in A's order, or put the columns of A's weights in B's",
        )
    norms_a, norms_b = _norms(draft.nodes_a), _norms(draft.nodes_b)
    if len(norms_a) == len(norms_b) == 1:
        return _fixed_gamma(alignment, norms_a[0], norms_b[0]) or _bias_of_one(alignment, draft)
    if not norms_a and not norms_b:
        return _bias_of_one(alignment, draft)
    return _folded(alignment, draft)


def _norms(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    return [node for node in nodes if node.op_type == "BatchNormalization"]


def _fixed_gamma(alignment: Alignment, norm_a: ir.Node, norm_b: ir.Node) -> Finding | None:
    """Return that only one of two BatchNorms stores gammas; None if both do, or neither."""
    fixed_in_a = _has_fixed_scale(alignment.a.signals, norm_a)
    if fixed_in_a == _has_fixed_scale(alignment.b.signals, norm_b):
        return None
    lacks, stores = ("A", "B") if fixed_in_a else ("B", "A")
    return _latent(
        alignment,
        (norm_a, norm_b),
        mismatch="fix-gamma",
        cause=f"{lacks} takes every gamma as 1 and stores none, {stores} stores them",
        fix="leave out the gammas in B" if fixed_in_a else "store gammas in B",
    )


def _bias_of_one(alignment: Alignment, draft: Draft) -> Finding | None:
    """Return that only one of two filters has a bias; None if both have one, or neither.

    A bias that A lacks is zero in B then, and one that B lacks is in the mean of the BatchNorm behind.
    """
    filters_a, filters_b = _filters(draft.nodes_a), _filters(draft.nodes_b)
    if len(filters_a) != 1 or len(filters_b) != 1:
        return None
    has_a, has_b = _has_bias(draft.nodes_a), _has_bias(draft.nodes_b)
    if has_a == has_b:
        return None
    owner, other = ("A", "B") if has_a else ("B", "A")
    fix = bias_setting(alignment.b.signals.graph.format, has_bias=has_a)
    return _latent(
        alignment,
        (filters_a[0], filters_b[0]),
        mismatch="missing-bias",
        cause=f"{owner} has a bias, {other} has none; the weights that were copied make up for it",
        fix=fix or ("give B's layer A's bias" if has_a else "take the bias from B's layer"),
    )


def _has_bias(nodes: Sequence[ir.Node]) -> bool:
    """Return whether a filter stores a bias, or a sum behind it, as in TensorFlow.

    A sum behind a normalisation is its beta, and does not count.
    """
    norm = next((i for i, node in enumerate(nodes) if node.op_type == "BatchNormalization"), len(nodes))
    biases = [constants_of(node).get(2) for node in _filters(nodes)]
    biases += [v for node in nodes[:norm] if node.op_type == "Add" for v in constants_of(node).values()]
    return any(bias is not None and bool(source_keys(bias)) for bias in biases)


def _folded(alignment: Alignment, draft: Draft) -> Finding | None:
    """Return that only one of two filters has a BatchNorm behind it; None if that is not so."""
    norms_a, norms_b = _norms(draft.nodes_a), _norms(draft.nodes_b)
    filters_a, filters_b = _filters(draft.nodes_a), _filters(draft.nodes_b)
    if bool(norms_a) == bool(norms_b) or not filters_a or not filters_b or all_folded(alignment):
        return None
    side = alignment.a if norms_a else alignment.b
    norm, _ = where(side.signals, (norms_a or norms_b)[0])
    return _latent(
        alignment,
        ((norms_a or filters_a)[0], (norms_b or filters_b)[0]),
        mismatch="missing-layer",
        cause=f"{side.name} has {norm}, {side.other_name} has none, "
        "and would have to fold it into its weights",
        fix=f"add {norm} to B, or fold it into B's weights" if side.is_a else f"remove {norm} from B",
    )


def _filters(nodes: Sequence[ir.Node]) -> list[ir.Node]:
    return [node for node in nodes if filter_shape(node) is not None]


def all_folded(alignment: Alignment) -> Side | None:
    """Return the net that has no normalisation where the other has many; None if neither is so.

    Such a net has folded them all, which is one thing to say and not one for each layer.
    """
    counts = [count_norms(side.signals) for side in alignment.sides]
    if 0 not in counts or max(counts) <= MAX_FOLDED_ALONE:
        return None
    return alignment.sides[counts.index(0)]


def _latent(
    alignment: Alignment, nodes: tuple[ir.Node, ir.Node], *, mismatch: str, cause: str, fix: str
) -> Finding:
    a, b = (alignment.a.signals, nodes[0]), (alignment.b.signals, nodes[1])
    return finding_at(a, b, mismatch=mismatch, cause=cause, fix=fix, latent=True)


def _has_fixed_scale(signals: Signals, node: ir.Node) -> bool:
    """Return whether neither a BatchNorm nor a scaling behind it stores a gamma."""
    gammas = [constants_of(node).get(1)]
    for scaling in chain_from(signals, node)[1:]:
        gammas += constants_of(scaling).values() if scaling.op_type == "Mul" else []
    return not any(value is not None and source_keys(value) for value in gammas)
