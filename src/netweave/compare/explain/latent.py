"""Differences that make no difference for the given weights and inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.compare.align.chains import form_of
from netweave.compare.explain.causes import where
from netweave.compare.explain.traps import Case
from netweave.compare.explain.traps.attributes import attribute_traps
from netweave.compare.explain.traps.constants import constant_traps
from netweave.compare.result.comparison import Finding

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from netweave.compare.align.alignment import Alignment
    from netweave.compare.align.groups import Draft


def latent_finding(
    alignment: Alignment, tensors_a: Mapping[str, np.ndarray], draft: Draft, *, swapped: bool
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
        swapped=swapped,
        mappings={pair.b: pair.mapping for pair in read if pair.mapping is not None},
        shapes_a={pair.a: tensors_a[pair.a].shape for pair in read},
    )
    proposals = [p for trap in (attribute_traps, constant_traps) for p in trap(case)]
    if not proposals:
        return None
    first = proposals[0]
    layer_a, place_a = where(a, first.node_a)
    layer_b, place_b = where(b, first.node_b)
    return Finding(
        trap=" + ".join(dict.fromkeys(p.trap for p in proposals)),
        cause="; ".join(p.cause for p in proposals),
        fix="; ".join(p.fix for p in proposals),
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
        latent=True,
    )
