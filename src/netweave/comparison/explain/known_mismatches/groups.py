"""The mismatch of channels in another number of groups, whose filters then have other sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.comparison.explain.known_mismatches.attributes import differences, set_attribute
from netweave.comparison.explain.known_mismatches.constants import replace_constant
from netweave.comparison.explain.known_mismatches.folded import missing_factor
from netweave.comparison.explain.known_mismatches.mismatch import Case, Proposal, together
from netweave.comparison.explain.wording import in_groups, setting
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import constants_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np


def group_mismatches(case: Case) -> Iterator[Proposal]:
    """Propose A's number of groups, and A's filters with it, where two convolutions have different ones."""
    for node_a, node_b in case.pairs():
        stored = constants_of(node_a).get(1)
        if node_a.op_type != node_b.op_type or stored is None or stored.const_value is None:
            continue
        apart = differences(node_a, node_b).get("group")
        if apart is None:
            continue
        filters = _filters(case, stored.const_value.numpy())
        yield Proposal(
            mismatch="group",
            cause=in_groups(*apart),
            fix=f"{setting(case.b.graph.format, node_b, 'group', apart[0])}, with A's filters",
            node_a=node_a,
            node_b=node_b,
            change=together(
                set_attribute(node_b.name, "group", apart[0]), replace_constant(node_b.name, 1, filters)
            ),
        )


def _filters(case: Case, filters: np.ndarray) -> np.ndarray:
    """Return A's filters as B's have to be, which may leave a part of them to the scalings that follow."""
    if filters.ndim == 4:
        filters = ORIENTATIONS[case.orientation](filters)
    factor = missing_factor(case)
    return filters if factor is None else filters * factor.reshape(-1, *[1] * (filters.ndim - 1))
