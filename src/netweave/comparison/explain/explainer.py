"""Judgement of causes."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.align.value_matching import Draft, build_groups
from netweave.comparison.explain.findings import edits_of, finding_at, where
from netweave.comparison.explain.isolated import IsolatedTest, IsolatedTester
from netweave.comparison.explain.known_mismatches import KNOWN_MISMATCHES, Case, Proposal
from netweave.comparison.explain.known_mismatches.order import in_order_of_a, reordered, unchanged
from netweave.comparison.explain.latent import hidden_by_copies, latent_finding
from netweave.comparison.explain.missing import (
    find_moved,
    find_parallel,
    is_pass_through,
    missing_finding,
    other_filters,
    other_operators,
    shape_mismatch,
)
from netweave.comparison.explain.outputs import misplaced_outputs, settle_joined_orders
from netweave.comparison.explain.wording import OPERATORS_IN_WORDS, bias_setting
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.layout.wording import describe
from netweave.comparison.metric import LOCAL_TOLERANCE, constants_of, relative_error
from netweave.comparison.missing_weights import Completion
from netweave.comparison.result.comparison import Evidence, Finding, Group, Status, TensorMapping
from netweave.comparison.result.verdict import EFFECTIVE
from netweave.comparison.stopwatch import Stopwatch
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError
from netweave.graph import layer_keys
from netweave.graph.parameters import source_keys
from netweave.graph.summary import joined_text
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side
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
            functions=first.functions if len(proposals) == 1 else ("", ""),
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


MAX_UNEXPLAINED = 40
"""When no cause was found for this many wrong groups, no more are looked for: each takes many runs."""


ORDERS = frozenset({"input-order", "channel-order"})
"""Mismatches that are found where an order is read, and are said once, of the layer that makes it."""


@dataclass(slots=True)
class Judge:
    """Judges the groups of one pair of nets.

    Attributes:
        alignment: Pairs of signals and nodes, and what both nets computed.
        completion: What the nets were given in the place of weights that they came without.
        clock: Takes the time of tests and of explaining.
        drafts: The groups before they were judged, in the order of ``groups``.
    """

    alignment: Alignment
    completion: Completion = field(default_factory=Completion)
    clock: Stopwatch = field(default_factory=Stopwatch)
    drafts: list[Draft] = field(default_factory=list)
    _num_unexplained: int = 0
    _moved: dict[int, str] = field(default_factory=dict)
    _parallel: dict[int, Finding] = field(default_factory=dict)
    _misplaced: dict[int, Finding] = field(default_factory=dict)
    _joined: dict[int, Finding] = field(default_factory=dict)
    _orders: set[tuple[str, str, str, str]] = field(default_factory=set)

    def num_wrong(self) -> int:
        """Return how many groups do not do what A's do, without looking for the cause."""
        drafts = build_groups(self.alignment)
        doubtful = [draft for draft in drafts if draft.is_pair and not self._has_equal_values(draft)]
        tests = IsolatedTester(self.alignment).run(doubtful)
        return sum(not test.is_equal for test in tests) + sum(not draft.is_pair for draft in drafts)

    def groups(self) -> list[Group]:
        """Return all groups, judged, in A's order."""
        self.drafts = drafts = build_groups(self.alignment)
        self._moved = find_moved(self.alignment, drafts)
        self._parallel = find_parallel(self.alignment, drafts)
        self._misplaced = misplaced_outputs(self.alignment)
        self._joined = settle_joined_orders(self.alignment, drafts)
        doubtful = [
            draft
            for draft in drafts
            if draft.is_pair and self._is_run(draft) and not self._has_equal_values(draft)
        ]
        tests = IsolatedTester(self.alignment).run(doubtful)
        tested = {id(draft) for draft in doubtful}
        groups = []
        for draft in drafts:
            with self.clock.time("test layers"):
                test = next(tests) if id(draft) in tested else None
            groups.append(self._group(draft, test))
        return groups

    def blame_untested(self, groups: Sequence[Group]) -> list[Group]:
        """Return the groups of nets whose outputs are far apart, though none of them is known to be wrong.

        The first that could not be tested alone is: it reads the same values in both nets and makes others.
        """
        blamed = list(groups)
        if not any(group.status in EFFECTIVE for group in groups):
            for index, (draft, group) in enumerate(zip(self.drafts, groups, strict=True)):
                if group.status is Status.UNKNOWN and draft.is_pair and self._parts_nets(draft):
                    finding = group.finding
                    cause = "the layers compute other values of the same ones"
                    if finding is not None:
                        finding = replace(finding, cause=f"{cause}; {finding.cause}")
                    blamed[index] = replace(group, status=Status.DIFFERENT, finding=finding)
                    break
        return blamed

    def _parts_nets(self, draft: Draft) -> bool:
        """Return whether one net's nodes of a group read paired values and make none."""
        for side in self.alignment.sides:
            nodes, inputs = draft.nodes_of(side), {str(value.name) for value in side.graph.inputs}
            read = side.signals.reads_from_outside(nodes)
            same = {name for name, pair in side.pairs.items() if pair.has_equal_values}
            if read and same.issuperset(read) and inputs.isdisjoint(read):
                return same.isdisjoint(side.signals.leaving(nodes))
        return False

    def explain(self, draft: Draft, test: IsolatedTest) -> Finding:
        """Return what is wrong with a group that failed an isolated test."""
        with self.clock.time("explain"):
            return Explainer(self.alignment, self.completion).explain(draft, test)

    def _is_run(self, draft: Draft) -> bool:
        """Return whether A has run as far as a group; one that takes no size may stop before."""
        return all(name_a in self.alignment.a.tensors for name_a, _ in draft.outputs)

    def _has_equal_values(self, draft: Draft) -> bool:
        pairs = self.alignment.a.pairs
        return bool(draft.outputs) and all(
            self.alignment.has_equal_values(name_a) and pairs[name_a].b == name_b
            for name_a, name_b in draft.outputs
        )

    def _group(self, draft: Draft, test: IsolatedTest | None) -> Group:
        group = Group(
            nodes_a=_names(draft.nodes_a),
            nodes_b=_names(draft.nodes_b),
            layers_a=_layers(draft.nodes_a),
            layers_b=_layers(draft.nodes_b),
            evidence=draft.evidence,
            status=Status.UNKNOWN,
            functions=(_function(draft.nodes_a), _function(draft.nodes_b)),
        )
        if not draft.is_pair:
            return self._alone(draft, group)
        if not self._is_run(draft):
            return group
        if test is None:
            return self._equal(draft, group)
        return self._tested(draft, test, group)

    def _equal(self, draft: Draft, group: Group) -> Group:
        """Judge a group whose values agree in both nets, each run on its own inputs."""
        pairs = [self.alignment.a.pairs[name_a] for name_a, _ in draft.outputs]
        change = pairs[0].change
        misplaced = next(
            (self._misplaced[id(node)] for node in draft.nodes_b if id(node) in self._misplaced), None
        )
        finding = misplaced or self._latent(draft)
        mapped = change is not None and not change.is_identity
        status = Status.LATENT if finding else Status.MAPPED if mapped else Status.EQUAL
        status = Status.DIFFERENT if misplaced else status
        return replace(
            group,
            evidence=Evidence.VALUES,
            status=status,
            error=max((pair.error or 0.0) for pair in pairs),
            mapping=TensorMapping.named(*draft.outputs[0], change, describe(change))
            if change is not None and mapped
            else None,
            finding=finding,
        )

    def _tested(self, draft: Draft, test: IsolatedTest, group: Group) -> Group:
        """Judge a group by its isolated test: equal on A's inputs, it only propagates what comes before."""
        error = self._own_error(draft, test)
        if test.error is None:
            return self._untestable(draft, test, replace(group, error=error))
        group = replace(group, error=error, isolated_error=test.error)
        joined = next((self._joined[id(node)] for node in draft.nodes_b if id(node) in self._joined), None)
        if joined is not None and test.is_equal:  # equal but for the order, which its readers do not expect
            return replace(group, status=Status.DIFFERENT, isolated_error=joined.error, finding=joined)
        parallel = next(
            (self._parallel[id(node)] for node in draft.nodes_b if id(node) in self._parallel), None
        )
        if parallel is not None and test.is_equal:
            proven = replace(parallel, error=error, error_fixed=test.error)
            return replace(group, status=Status.DIFFERENT, finding=proven)
        if test.is_equal:
            propagates = error is None or error > LOCAL_TOLERANCE
            finding = self._latent(draft, test)
            agrees = Status.LATENT if finding else Status.EQUAL
            status = Status.PROPAGATED if propagates else agrees
            return replace(group, status=status, evidence=Evidence.VALUES, finding=finding)
        if self.completion.num_unfilled:
            explainer = Explainer(self.alignment, self.completion)
            if explainer.agrees_when_filled(draft, test):
                return replace(group, status=Status.PROPAGATED)
        if self._num_unexplained >= MAX_UNEXPLAINED:
            return replace(group, status=Status.DIFFERENT)
        finding = self.explain(draft, test)
        if self._is_said(finding):
            return replace(group, status=Status.PROPAGATED)
        self._num_unexplained += finding.mismatch is None
        functions = finding.functions if all(finding.functions) else group.functions
        return replace(group, status=Status.DIFFERENT, finding=finding, functions=functions)

    def _is_said(self, finding: Finding) -> bool:
        """Return whether another reader of a layer has already reported the order that the layer makes."""
        if finding.mismatch not in ORDERS:
            return False
        key = finding.mismatch, finding.layer_a, finding.layer_b, finding.place_b
        is_said = key in self._orders
        self._orders.add(key)
        return is_said

    def _untestable(self, draft: Draft, test: IsolatedTest, group: Group) -> Group:
        a, b = self.alignment.a.signals, self.alignment.b.signals
        shaped = shaped_finding(a, b, draft, [])
        cause = f"could not be tested alone: {test.reason}"
        note = finding_at((a, draft.nodes_a[0]), (b, draft.nodes_b[0]), mismatch=None, cause=cause)
        status = Status.DIFFERENT if shaped is not None and shaped.mismatch else Status.UNKNOWN
        return replace(group, status=status, finding=shaped or note)

    def _latent(self, draft: Draft, test: IsolatedTest | None = None) -> Finding | None:
        latent = latent_finding(self.alignment, draft, None if test is None else test.layouts)
        if latent is not None or not self.completion.weights_copied:
            return latent
        return hidden_by_copies(self.alignment, draft, self.completion.reordered)

    def _own_error(self, draft: Draft, test: IsolatedTest) -> float | None:
        """Return the error of a group's outputs, each net run on its own inputs."""
        tensors_a, tensors_b = self.alignment.a.tensors, self.alignment.b.tensors
        errors = []
        for name_a, name_b in draft.outputs:
            pair = self.alignment.a.pairs.get(name_a)
            if pair is not None and pair.b == name_b and pair.error is not None:
                errors.append(pair.error)
            elif name_b in test.changes and name_b in tensors_b:
                errors.append(
                    relative_error(test.changes[name_b].apply(tensors_a[name_a]), tensors_b[name_b])
                )
        return max(errors, default=None)

    def _alone(self, draft: Draft, group: Group) -> Group:
        side = self.alignment.a if draft.nodes_a else self.alignment.b
        # A has run: what it has no values of cannot be run alone either
        run_alone = _not_run if side.is_a else IsolatedTester(self.alignment).run_alone
        nodes = draft.nodes_of(side)
        without_effect = is_pass_through(side, nodes, run_alone)
        if without_effect is None and side.own_values is not None:
            without_effect = is_pass_through(side.with_tensors(side.own_values()), nodes, _not_run)
        if without_effect and not self.completion.weights_copied and all(map(_adds_zeros, nodes)):
            return replace(group, status=Status.EQUAL)  # a bias of zeros, as a fused layer has for the keys
        moved = self._moved.get(id(draft))
        finding = missing_finding(self.alignment, side, nodes, moved=moved, latent=without_effect)
        status = Status.ONLY_A if side.is_a else Status.ONLY_B
        is_sum = bool(self._parallel) and all(node.op_type == "Add" for node in nodes)
        if moved and (not side.is_a or is_sum):
            return replace(group, status=status)  # said once, where A has the layer, or of what reads the sum
        effects = {True: Status.LATENT, False: status, None: Status.UNKNOWN}
        return replace(group, status=effects[without_effect], finding=finding)


def _adds_zeros(node: ir.Node) -> bool:
    """Return whether a node adds stored zeros."""
    stored = [value.const_value for value in constants_of(node).values() if value.const_value is not None]
    return node.op_type == "Add" and len(stored) == 1 and not stored[0].numpy().any()


def _not_run(nodes: Sequence[ir.Node], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    return {}


def _names(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(str(node.name) for node in nodes)


def _function(nodes: Sequence[ir.Node]) -> str:
    """Return what people call one node that files write as several; empty for others."""
    return OPERATORS_IN_WORDS.get(nodes[0].op_type, "") if len(nodes) == 1 else ""


def _layers(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for node in nodes for key in layer_keys(node)))
