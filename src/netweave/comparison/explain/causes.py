"""Causes of wrong groups: every known mismatch is tried on A's real inputs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.comparison.explain.edits import edits_of
from netweave.comparison.explain.findings import finding_at, where
from netweave.comparison.explain.incompatible import other_filters, other_operators, shape_mismatch
from netweave.comparison.explain.known_mismatches import KNOWN_MISMATCHES, Case, Proposal
from netweave.comparison.explain.known_mismatches.order import in_order_of_a, reordered, unchanged
from netweave.comparison.explain.wording import bias_setting
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.signals import constants_of
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError
from netweave.graph.parameters import source_keys
from netweave.graph.wording import joined_text
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.completion import Completion
    from netweave.comparison.explain.isolated import IsolatedTest
    from netweave.comparison.result.comparison import Finding
    from netweave.comparison.side import Side
    from netweave.comparison.signals import Signals
    from netweave.graph import Graph

MAX_CHANGES = 6
"""More differences in one group are not disentangled: 6 have 57 subsets of two or more, each a run."""

OF_WEIGHTS = frozenset({"weights", "bn-scale-factor", "fix-gamma"})
"""Mismatches that give a layer other values and leave its settings as they are."""

OF_SIZES = frozenset({"slope-sharing"})
"""Mismatches of how many numbers an array holds: no values that it came without make up for them."""

OF_WINDOWS = frozenset({"padding", "stride", "dilation"})
"""Mismatches that go with the window of filters."""


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains groups of one pair of nets.

    Attributes:
        alignment: Pairs of signals and nodes.
        completion: What the nets were given in the place of weights that they came without.
    """

    alignment: Alignment
    completion: Completion

    @property
    def a(self) -> Signals:
        """Signals of the first net."""
        return self.alignment.a.signals

    @property
    def b(self) -> Signals:
        """Signals of the second net."""
        return self.alignment.b.signals

    def agrees_when_filled(self, draft: Draft, test: IsolatedTest) -> bool:
        """Return whether a group does what A's does as soon as its arrays without values hold A's."""
        fills, _ = self._proposals(self._case(draft, test))
        return bool(fills) and self._error_with(draft, test, fills) <= LOCAL_TOLERANCE

    def _proposals(self, case: Case) -> tuple[list[Proposal], list[Proposal]]:
        """Return the proposals that fill arrays without values, and the others, which are differences."""
        a, b = self.alignment.sides
        is_open = any(self._is_unfilled(a, node) for node in case.nodes_a) or any(
            self._is_unfilled(b, node) for node in case.nodes_b
        )
        fills: list[Proposal] = []
        others: list[Proposal] = []
        for proposal in (proposal for propose in KNOWN_MISMATCHES for proposal in propose(case)):
            (fills if is_open and self._fills(proposal) else others).append(proposal)
        return fills, others

    def _fills(self, proposal: Proposal) -> bool:
        """Return whether a proposal gives an array the values that another one of its layers came without.

        A bias may be anywhere in a chain of filters and scalings, so while some of the chain have no values,
        other values are no difference.
        """
        if proposal.array is None or proposal.mismatch in OF_SIZES:
            return False
        a, b = self.alignment.sides
        own = self._is_unfilled(a, proposal.node_a, proposal.array)
        own = own or self._is_unfilled(b, proposal.node_b, proposal.array)
        return own or proposal.mismatch == "weights"

    def _is_unfilled(self, side: Side, node: ir.Node, index: int | None = None) -> bool:
        """Return whether an array of a node, or the one at a position, has no values and was given none."""
        unfilled = self.completion.of(side).unfilled
        values = [v for i, v in constants_of(node).items() if index in {None, i}]
        return any(not unfilled.isdisjoint(source_keys(value)) for value in values)

    def explain(self, draft: Draft, test: IsolatedTest) -> Finding:
        """Return what is wrong with a group, as far as a known mismatch explains it."""
        case = self._case(draft, test)
        before = self._reordered(draft, test, case) or self._rewired(draft, test)
        if before is not None:
            return self._finding(test, [before[1]], before[0])
        fills, proposals = self._proposals(case)
        proposals = [self._in_settings(proposal) for proposal in proposals]
        tried = [(self._error_with(draft, test, [*fills, proposal]), proposal) for proposal in proposals]
        best = min(tried, key=_unlikeliness, default=None)
        if best is not None and best[0] <= LOCAL_TOLERANCE:
            return self._finding(test, [best[1]], best[0])
        together = self._together(draft, test, tried, fills)
        if together is not None:
            return self._finding(test, *together)
        return self._unexplained(draft, test, proposals)

    def _in_settings(self, proposal: Proposal) -> Proposal:
        """Return a proposal about a bias as the setting that it is where B came without weights."""
        if proposal.mismatch != "missing-bias" or proposal.node_b.name not in self.completion.b.borrowing:
            return proposal
        bias = constants_of(proposal.node_a).get(2)  # zeros that no array stands behind are none
        fix = bias_setting(self.b.graph.format, has_bias=bias is not None and bool(source_keys(bias)))
        return replace(proposal, fix=fix) if fix else proposal

    def _case(self, draft: Draft, test: IsolatedTest) -> Case:
        shapes = {source: test.feeds[name].shape for name, source in test.sources.items()}
        for name, source in test.sources.items():
            change = test.layouts[name]
            if change.axes is not None or change.shape is not None:
                shapes[source] = change.shape_in_a(test.feeds[name].shape)
        return Case(
            a=self.a,
            b=self.b,
            nodes_a=tuple(draft.nodes_a),
            nodes_b=tuple(draft.nodes_b),
            orientation=self.alignment.orientation,
            feeds=test.feeds,
            changes=test.layouts,
            shapes_a=shapes,
            known=self.alignment.b.pairs,
        )

    def _reordered(self, draft: Draft, test: IsolatedTest, case: Case) -> tuple[float, Proposal] | None:
        """Return what put the channels that B's group reads in another order, if that alone is wrong."""
        proposal = next((proposed for node in draft.nodes_b if (proposed := reordered(case, node))), None)
        if proposal is None:
            return None
        feeds = {name: in_order_of_a(test.layouts[name], x) for name, x in test.feeds.items()}
        error = self._error_with(draft, replace(test, feeds=feeds), [])
        return (error, proposal) if error <= LOCAL_TOLERANCE else None

    def _rewired(self, draft: Draft, test: IsolatedTest) -> tuple[float, Proposal] | None:
        """Return what B's group reads in the place of what A's reads, if that alone is wrong."""
        if not test.instead:
            return None
        feeds = {**test.feeds, **test.instead}
        error = self._error_with(draft, replace(test, feeds=feeds), [])
        reads_b = ", ".join(_maker(self.b, name) for name in test.instead)
        reads_a = ", ".join(_maker(self.a, test.rewired[name]) for name in test.instead)
        proposal = Proposal(
            mismatch="input",
            cause=f"A reads the output of {reads_a}, B reads the output of {reads_b}",
            fix=f"read the output of {reads_a}",
            node_a=draft.nodes_a[0],
            node_b=draft.nodes_b[0],
            change=unchanged,
        )
        return (error, proposal) if error <= LOCAL_TOLERANCE else None

    def _error_with(self, draft: Draft, test: IsolatedTest, proposals: Sequence[Proposal]) -> float:
        """Return the error of B's group with changes made; infinite if it no longer runs."""
        outputs = [b for _, b in draft.outputs]
        try:
            subgraph = self._subgraph(draft, test, outputs)
            for proposal in proposals:
                proposal.change(subgraph)
            names = [str(value.name) for value in subgraph.inputs]
            feeds = {**test.feeds, **test.sizes}
            computed = prepare(subgraph).run({name: feeds[name] for name in names})
        except NetweaveError:
            return float("inf")
        return max((_error(test.wanted[name], computed[name]) for name in outputs), default=float("inf"))

    def _subgraph(self, draft: Draft, test: IsolatedTest, outputs: Sequence[str]) -> Graph:
        builder = SubgraphBuilder(self.b)
        builder.add(draft.nodes_b, outputs, {n: x.shape for n, x in test.feeds.items()}, prefix="")
        return builder.finish()

    def _together(
        self,
        draft: Draft,
        test: IsolatedTest,
        tried: Sequence[tuple[float, Proposal]],
        fills: Sequence[Proposal],
    ) -> tuple[list[Proposal], float] | None:
        """Find a smallest set of changes that helps together where none does alone."""
        chosen: dict[tuple[str | None, str, str], Proposal] = {}
        for _, proposal in sorted(tried, key=lambda row: row[0]):
            chosen.setdefault((proposal.node_b.name, proposal.mismatch, proposal.subject), proposal)
        proposals = list(chosen.values())
        if len(proposals) > MAX_CHANGES:
            return None
        for count in range(2, len(proposals) + 1):
            for some in itertools.combinations(proposals, count):
                error = self._error_with(draft, test, [*fills, *some])
                if error <= LOCAL_TOLERANCE:
                    return list(some), error
        return None

    def _finding(self, test: IsolatedTest, proposals: Sequence[Proposal], error: float) -> Finding:
        first = proposals[0]
        return finding_at(
            (self.a, first.node_a),
            (self.b, first.node_b),
            mismatch=" + ".join(dict.fromkeys(p.mismatch for p in proposals)),
            cause="; ".join(dict.fromkeys(p.cause for p in proposals)),
            fix=joined_text(p.fix for p in proposals),
            error=test.error,
            error_fixed=error,
            edits=edits_of(p.fix for p in proposals),
        )

    def _unexplained(self, draft: Draft, test: IsolatedTest, proposals: Sequence[Proposal]) -> Finding:
        shaped = shaped_finding(self.a, self.b, draft, proposals)
        if shaped is not None:
            return replace(shaped, error=test.error)
        seen = "; ".join(dict.fromkeys(p.cause for p in proposals))
        other = other_operators(draft.nodes_a, draft.nodes_b)
        cause = other or ("unexplained" if seen else "unexplained: no known mismatch fits")
        cause += f"; also different: {seen}" if seen else ""
        a, b = (self.a, draft.nodes_a[-1]), (self.b, draft.nodes_b[-1])
        return finding_at(a, b, mismatch=None, cause=cause, error=test.error)


def _unlikeliness(row: tuple[float, Proposal]) -> tuple[bool, bool, float]:
    """Return what orders proposals that were tried, likelier ones first.

    Where a setting and other weights repair a layer alike, it is the setting: weights can make up for any.
    """
    error, proposal = row
    changes_weights = proposal.array is not None or proposal.mismatch in OF_WEIGHTS
    return error > LOCAL_TOLERANCE, changes_weights, error


def shaped_finding(a: Signals, b: Signals, draft: Draft, proposals: Sequence[Proposal]) -> Finding | None:
    """Return what is wrong with a group whose filters have other shapes; None if they do not.

    Args:
        a: Signals of A.
        b: Signals of B.
        draft: The group.
        proposals: What differs besides; settings of the window go with its size.
    """
    mismatch = other_filters(draft.nodes_a, draft.nodes_b, format_b=b.graph.format)
    if mismatch is None:
        return None
    cause, fix, node_a, node_b = mismatch
    besides = [p for p in proposals if p.node_b is node_b and p.mismatch in OF_WINDOWS] if fix else []
    return finding_at(
        (a, node_a),
        (b, node_b),
        mismatch=shape_mismatch(node_a, node_b) if fix else None,
        cause="; ".join([cause, *(p.cause for p in besides)]),
        fix=joined_text([fix, *(p.fix for p in besides)]),
        edits=edits_of([fix, *(p.fix for p in besides)]),
    )


def _error(wanted: np.ndarray, found: np.ndarray) -> float:
    """Return the error of what a changed group makes, in whatever layout it now has the sizes for."""
    if wanted.shape == found.shape:
        return relative_error(wanted, found)
    solved = solve_layout(wanted, found, tolerance=LOCAL_TOLERANCE)
    return float("inf") if solved is None else solved[1]


def _maker(signals: Signals, name: str) -> str:
    """Return the name of the layer that makes a signal, or of the input that it is."""
    node = signals.producer.get(name)
    return repr(where(signals, node)[0] if node is not None else name)
