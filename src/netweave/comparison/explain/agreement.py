"""Review of outputs that agree, which is not always evidence of equality (decision 0128).

They do not where a later layer hides a difference (a saturated softmax, a rectifier that lets nothing pass),
nor where they do not depend on the input at all (weights of zeros). So a difference is followed to the layer
that hides it, and layers that see nothing but constants are tested on drawn inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from netweave.comparison.align.value_matching import Draft
from netweave.comparison.execution.input_domains import Variation
from netweave.comparison.explain.aimed_inputs import (
    Draw,
    aimed_inputs,
    draws_for,
    is_same,
    is_written_alike,
    needs_aim,
    operators_in_words,
)
from netweave.comparison.explain.isolated import IsolatedTester
from netweave.comparison.explain.known_mismatches.attributes import differences
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import Group, Status
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError
from netweave.graph.summary import list_names
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.explain.explainer import Judge
    from netweave.comparison.explain.isolated import IsolatedTest
    from netweave.comparison.prepare import Side
    from netweave.comparison.result.comparison import Finding

MAX_DRAWN = 200
"""Groups beyond this many are not tested on drawn inputs, and count as untested: each takes three runs."""


FEW = 64
"""Elements of an input that reach both sides of a threshold; of a smaller one more are drawn."""

ROTARY_POSITION = "rotary-position"
"""Key of the mismatch of rotary embeddings that start elsewhere."""

MAX_ROUNDS = 8
"""So often layers are tested in each manner of drawing at most."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """The weight of agreeing outputs as evidence.

    Attributes:
        groups: The groups, with what the review found out about them.
        hidden: Groups that differ though the outputs agree.
        reason: Why agreeing outputs say nothing, in words.
        flaws: Outputs that depend too little on the input to say anything, each with the reason.
        untested: Layers that could not be tested, since they make the same values whatever they read.
        is_out_of_reach: Some layers differ only on values that the inputs do not reach.
    """

    groups: Sequence[Group]
    hidden: Sequence[Group] = ()
    reason: str = ""
    flaws: Mapping[str, str] | None = None
    untested: Sequence[str] = ()
    is_out_of_reach: bool = False


def review(judge: Judge, groups: Sequence[Group], variation: Variation, *, tolerance: float) -> Agreement:
    """Look behind outputs that agree.

    Args:
        judge: The judge of the groups.
        groups: What it found, in its order.
        variation: Which signals of A depend on the input.
        tolerance: Largest error that counts as none.
    """
    groups = list(groups)
    hidden = [g for g in groups if _differs(g, tolerance)]
    masks = _masks(judge, groups, tolerance) if hidden else []
    if masks and _are_shifted_alike(judge, groups, hidden, masks, tolerance):
        groups = [_without_effect(group) if group in hidden else group for group in groups]
        masks, hidden = [], []
    if masks:
        verb = "hides" if len(masks) == 1 else "hide"
        return Agreement(
            groups, hidden, f"{list_names(_layers(masks))} {verb} the difference on the inputs tried"
        )
    outputs = judge.alignment.a.signals.outputs
    flaws = {name: flaw for name in outputs if (flaw := variation.flaw(name))}
    is_blind = bool(outputs) and len(flaws) == len(set(outputs))
    tester = _DrawnInputTester(judge, variation, decides=is_blind or judge.completion.weights_copied)
    differing: list[Group] = []
    untested: list[Group] = []
    # a layer that only one net has, and that did nothing to these inputs, or nothing that others do not hide
    is_out_of_reach = any(
        group.status in {Status.ONLY_A, Status.ONLY_B}
        or (group.status is Status.LATENT and not draft.is_pair and needs_aim(judge.alignment, draft))
        for draft, group in zip(judge.drafts, groups, strict=True)
    )
    candidates = tester.candidates(groups)
    untested += [groups[index] for index in candidates[MAX_DRAWN:]]
    for index in candidates[:MAX_DRAWN]:
        group, is_tested = tester.test(index, groups[index])
        groups[index] = group
        if group.status is Status.DIFFERENT:
            differing.append(group)
        is_out_of_reach |= group.status is Status.LATENT and needs_aim(judge.alignment, judge.drafts[index])
        if not is_tested:
            untested.append(group)
    if not is_blind:
        reason = "on other inputs these layers do not"
        return Agreement(groups, differing, reason, flaws, is_out_of_reach=is_out_of_reach)
    names = ", ".join(f"{name!r} is {flaw}" for name, flaw in flaws.items())
    return Agreement(groups, differing, f"output {names} on the inputs tried", flaws, _layers(untested))


def _differs(group: Group, tolerance: float) -> bool:
    """Return whether a group computes something else, by more than rounding."""
    if group.status is Status.DIFFERENT:
        return group.isolated_error is None or group.isolated_error > tolerance
    return group.status in {Status.ONLY_A, Status.ONLY_B}


def _masks(judge: Judge, groups: Sequence[Group], tolerance: float) -> list[Group]:
    """Return the groups that hide a difference: they agree though what they read does not.

    A group that makes up for the difference, as a layer of half the weights does after one of twice the
    weights, would not agree on A's own inputs.
    """
    wrong = [d for d, group in zip(judge.drafts, groups, strict=True) if _is_apart(group, tolerance)]
    apart = {side.name: _differing_signals(side, wrong) for side in judge.alignment.sides}
    return [
        group
        for draft, group in zip(judge.drafts, groups, strict=True)
        if draft.is_pair
        and not _is_apart(group, tolerance)
        and any(
            not apart[side.name].isdisjoint(side.signals.inputs_of(node))
            for side in judge.alignment.sides
            for node in draft.nodes_of(side)
        )
        and _reads_other_values(judge.alignment, draft)
        and _agrees_on_inputs_of_a(judge, draft, group)
    ]


def _are_shifted_alike(
    judge: Judge, groups: Sequence[Group], hidden: Sequence[Group], masks: Sequence[Group], tolerance: float
) -> bool:
    """Return whether all that differs is where rotary embeddings start, in the queries and in the keys.

    Products of queries and keys depend on how far these are apart, not on where they are.
    """
    causes = {group.finding.cause if group.finding else "" for group in hidden}
    if len(causes) != 1 or any(
        group.finding.mismatch != ROTARY_POSITION for group in hidden if group.finding
    ):
        return False
    wrong = [d for d, group in zip(judge.drafts, groups, strict=True) if _is_apart(group, tolerance)]
    b = judge.alignment.b
    maker = {name: id(d) for d in wrong for node in d.nodes_b for name in b.signals.outputs_of(node)}
    for draft, group in zip(judge.drafts, groups, strict=True):
        if group in masks:
            read = {maker.get(name) for node in draft.nodes_b for name in b.signals.inputs_of(node)}
            if len(read - {None}) < 2:
                return False
    return True


def _without_effect(group: Group) -> Group:
    finding = None if group.finding is None else replace(group.finding, latent=True)
    return replace(group, status=Status.LATENT, finding=finding)


def _reads_other_values(alignment: Alignment, draft: Draft) -> bool:
    """Return whether B's nodes of a group read anything but values that A's nodes read, too.

    If not, they agree on A's inputs as they do on their own, whatever else A's nodes read.
    """
    reads_a = alignment.a.signals.reads_from_outside(draft.nodes_a)
    pairs = map(alignment.b.pairs.get, alignment.b.signals.reads_from_outside(draft.nodes_b))
    return any(pair is None or pair.a not in reads_a or not pair.has_equal_values for pair in pairs)


def _differing_signals(side: Side, drafts: Sequence[Draft]) -> set[str]:
    """Return what wrong groups make, but for signals that hold the other net's values all the same."""
    names = {name for d in drafts for node in d.nodes_of(side) for name in side.signals.outputs_of(node)}
    return {name for name in names if name not in side.pairs or not side.pairs[name].has_equal_values}


def _is_apart(group: Group, tolerance: float) -> bool:
    """Return whether a group's own results differ, or nobody knows."""
    if group.status in {Status.ONLY_A, Status.ONLY_B}:
        return True
    return group.status is Status.UNKNOWN if group.error is None else group.error > tolerance


def _agrees_on_inputs_of_a(judge: Judge, draft: Draft, group: Group) -> bool:
    error = group.isolated_error
    if error is None:
        (test,) = IsolatedTester(judge.alignment).run([draft])
        error = test.error
    return error is not None and error <= LOCAL_TOLERANCE


class _DrawnInputTester:
    """Tests groups on drawn inputs, where those of the net say nothing.

    Args:
        judge: The judge of the groups.
        variation: Which signals of A depend on the input.
        decides: Whether what differs on drawn inputs makes the nets different: where no output says
            anything, or the weights are stand-ins, and with them what a layer happens to read.
    """

    def __init__(self, judge: Judge, variation: Variation, *, decides: bool) -> None:
        self._judge = judge
        self._variation = variation
        self._decides = decides

    def candidates(self, groups: Sequence[Group]) -> list[int]:
        """Return the places of the groups that agree on tensors that say nothing."""
        return [
            index
            for index, (draft, group) in enumerate(zip(self._judge.drafts, groups, strict=True))
            if draft.is_pair
            and group.status is not Status.DIFFERENT
            and (
                self._is_blind(draft)
                or needs_aim(self._judge.alignment, draft)
                or (self._judge.completion.weights_copied and _differ(draft))
            )
            and not is_same(self._judge.alignment, draft)
        ]

    def _is_blind(self, draft: Draft) -> bool:
        read = self._judge.alignment.a.signals.reads_from_outside(draft.nodes_a)
        return any(map(self._variation.flaw, [*read, *(name for name, _ in draft.outputs)]))

    def test(self, index: int, group: Group) -> tuple[Group, bool]:
        """Return a group as its test on drawn inputs leaves it, and whether the test says anything."""
        draft = self._judge.drafts[index]
        tests, says_something = self._tests(draft)
        worst = _worst(tests, draft)
        if worst is None:
            hidden = self._hidden(draft) if group.status is Status.EQUAL else None
            if hidden is not None:
                group = replace(group, status=Status.LATENT, finding=hidden)
            return group, says_something
        finding = self._judge.explain(draft, worst)
        if finding.mismatch is None and not needs_aim(self._judge.alignment, draft):
            return group, False
        if finding.mismatch is None:
            cause = f"the layers differ on values that the inputs do not reach: {operators_in_words(draft)}"
            finding = replace(finding, cause=cause)
        status = Status.DIFFERENT if self._decides else Status.LATENT
        finding = replace(finding, latent=not self._decides)
        return replace(group, status=status, isolated_error=worst.error, finding=finding), True

    def _hidden(self, draft: Draft) -> Finding | None:
        """Return in what the one layer of a group that is another in B differs, which those behind it hide.

        Thresholds and choices hide nearly all of what they read, and drawn inputs seldom meet the rest.
        """
        alignment = self._judge.alignment
        start = _up_to_another(alignment, draft)
        worst = _worst(self._tests(start)[0], start) if start is not None else None
        if start is None or worst is None:
            return None
        finding = self._judge.explain(start, worst)
        if finding.mismatch is None:
            last = replace(start, nodes_a=start.nodes_a[-1:], nodes_b=start.nodes_b[-1:])
            cause = f"{operators_in_words(last)}; the layers behind hide the difference on the inputs tried"
            finding = replace(finding, cause=cause)
        return replace(finding, latent=True)

    def _tests(self, draft: Draft) -> tuple[list[IsolatedTest], bool]:
        """Return isolated tests on drawn inputs, and whether the outputs depend on them."""
        alignment = self._judge.alignment
        runs = []
        tests: list[IsolatedTest] = []
        read = alignment.a.signals.reads_from_outside(draft.nodes_a)
        sizes = [prod(shape) for name in read if (shape := alignment.a.tensors.shape_of(name)) is not None]
        num_rounds = min(MAX_ROUNDS, -(-FEW // max(1, min(sizes, default=FEW))))
        for seed, draw in enumerate(draws_for(draft) * num_rounds):
            try:
                tensors = _on_drawn(alignment, draft, draw, seed=seed)
            except NetweaveError:
                return [], False
            tests += IsolatedTester(alignment.with_tensors_of_a(tensors)).run([draft])
            runs.append(tensors)
        flaws = Variation(alignment.a.signals, runs)
        return tests, not all(flaws.flaw(name) for name, _ in draft.outputs)


def _worst(tests: Sequence[IsolatedTest], draft: Draft) -> IsolatedTest | None:
    """Return the test with the largest error; None if all agree."""
    worst = max((t for t in tests if t.error is not None), key=lambda t: t.error or 0.0, default=None)
    return None if worst is None or worst.error is None or worst.error <= draft.tolerance else worst


def _up_to_another(alignment: Alignment, draft: Draft) -> Draft | None:
    """Return a group up to its one layer that is another in B, if other layers follow; None otherwise."""
    pairs = list(zip(draft.nodes_a, draft.nodes_b, strict=False))
    others = [at for at, (a, b) in enumerate(pairs) if not is_written_alike(Draft([a], [b], draft.evidence))]
    if len(draft.nodes_a) != len(draft.nodes_b) or len(others) != 1 or others[0] == len(pairs) - 1:
        return None
    a, b = pairs[others[0]]
    made = alignment.a.signals.outputs_of(a), alignment.b.signals.outputs_of(b)
    if a.op_type == b.op_type or len(made[0]) != 1 or len(made[1]) != 1:
        return None
    end = others[0] + 1
    return Draft(draft.nodes_a[:end], draft.nodes_b[:end], draft.evidence, [(made[0][0], made[1][0])])


def _differ(draft: Draft) -> bool:
    """Return whether the nodes of a group are other operators in B, or have other settings."""
    operators_a, operators_b = (
        [(node.domain, node.op_type) for node in nodes] for nodes in (draft.nodes_a, draft.nodes_b)
    )
    return operators_a != operators_b or any(
        differences(a, b) for a, b in zip(draft.nodes_a, draft.nodes_b, strict=True)
    )


def _on_drawn(alignment: Alignment, draft: Draft, draw: Draw, *, seed: int) -> dict[str, np.ndarray]:
    """Run A's nodes of a group on inputs aimed at what it decides by; return what they read and make."""
    a = alignment.a
    names = [name_a for name_a, _ in draft.outputs]
    builder = SubgraphBuilder(a.signals)
    read = a.signals.reads_from_outside(draft.nodes_a)
    shapes = {name: shape for name in read if (shape := a.tensors.shape_of(name)) is not None}
    fed = builder.add(draft.nodes_a, names, shapes, prefix="")
    feeds = aimed_inputs(alignment, draft, fed, draw, seed=seed)
    computed = prepare(builder.finish()).run(feeds)
    return {**feeds, **{name: computed[name] for name in names}}


def _layers(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for name in (group.layers_a or group.nodes_a)))
