"""Mismatches of rotary position embeddings: which features are turned together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.explain.known_mismatches.attributes import set_attribute
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PAIRS = ("feature i with feature i + d/2, the other half of the head", "neighbours, feature 2i with 2i + 1")


def rotary_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's pairs of features, where B turns others: GPT-NeoX's halves, or GPT-J's neighbours."""
    for node_a, node_b in case.pairs():
        if node_a.op_type != "RotaryEmbedding" or node_b.op_type != "RotaryEmbedding":
            continue
        a, b = (int(attributes_of(node).get("interleaved", 0)) for node in (node_a, node_b))
        if a != b:
            yield Proposal(
                mismatch="rotary-pairing",
                cause=f"the rotary embedding of A pairs {PAIRS[a]}; that of B pairs {PAIRS[b]}",
                fix=f"pair {PAIRS[a]}; the cosines and sines in the same order",
                node_a=node_a,
                node_b=node_b,
                change=set_attribute(node_b.name, "interleaved", a),
            )
