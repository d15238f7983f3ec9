"""From drafts to groups: which are equal, which propagate an error, which are wrong, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.align.groups import Draft, build_groups
from netweave.comparison.completion import Completion
from netweave.comparison.explain.causes import Explainer, shaped_finding
from netweave.comparison.explain.findings import finding_at
from netweave.comparison.explain.isolated import IsolatedTest, IsolatedTester
from netweave.comparison.explain.joined_order import settle_joined_orders
from netweave.comparison.explain.latent import hidden_by_copies, latent_finding
from netweave.comparison.explain.misplaced_outputs import misplaced_outputs
from netweave.comparison.explain.missing import missing_finding
from netweave.comparison.explain.moved import find_moved
from netweave.comparison.explain.pass_through import is_pass_through
from netweave.comparison.layout.words import describe
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.result.comparison import Evidence, Finding, Group, Status, TensorMapping
from netweave.comparison.result.verdict import EFFECTIVE
from netweave.comparison.stopwatch import Stopwatch
from netweave.graph import layer_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment

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
        return replace(group, status=Status.DIFFERENT, finding=finding)

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
        moved = self._moved.get(id(draft))
        finding = missing_finding(self.alignment, side, nodes, moved=moved, latent=without_effect)
        status = Status.ONLY_A if side.is_a else Status.ONLY_B
        if moved and not side.is_a:
            return replace(group, status=status)  # said once, where A has the layer
        effects = {True: Status.LATENT, False: status, None: Status.UNKNOWN}
        return replace(group, status=effects[without_effect], finding=finding)


def _not_run(nodes: Sequence[ir.Node], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    return {}


def _names(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(str(node.name) for node in nodes)


def _layers(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for node in nodes for key in layer_keys(node)))
