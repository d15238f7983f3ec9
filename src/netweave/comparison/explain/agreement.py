"""Whether outputs that agree prove that two nets are equal.

They do not where a later layer hides a difference (a saturated softmax, a rectifier that lets nothing pass),
nor where they do not depend on the input at all (weights of zeros). So a difference is followed to the layer
that hides it, and layers that see nothing but constants are tested on drawn inputs.
"""

from __future__ import annotations

from collections import ChainMap
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.backends import prepare
from netweave.comparison.explain.graft import Grafter
from netweave.comparison.explain.traps.attributes import differences
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.pieces import PieceBuilder
from netweave.comparison.result.comparison import Group, Status
from netweave.comparison.trial.variation import Variation
from netweave.errors import NetweaveError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.comparison.align.groups import Draft
    from netweave.comparison.explain.graft import Graft
    from netweave.comparison.explain.judge import Judge
    from netweave.comparison.signals import Signals

MAX_PROVOKED = 200
"""Groups beyond this many are not tested on drawn inputs, and count as untested."""

SCALES = (1.0, 1.0, 64.0)
"""Of the drawn inputs: twice the usual scale, then one that reaches bounds such as that of a ReLU6."""

MAX_NAMES = 4
"""More layers than this are not named."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What agreeing outputs prove.

    Attributes:
        groups: The groups, with what the review found out about them.
        hidden: Groups that differ though the outputs agree.
        reason: Why agreeing outputs prove nothing, in words.
        flaws: Outputs that depend too little on the input to prove anything, each with the reason.
        untested: Layers that could not be tested, since they make the same values whatever they read.
    """

    groups: Sequence[Group]
    hidden: Sequence[Group] = ()
    reason: str = ""
    flaws: Mapping[str, str] | None = None
    untested: Sequence[str] = ()


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
    if masks:
        verb = "hides" if len(masks) == 1 else "hide"
        return Agreement(groups, hidden, f"{_listed(masks)} {verb} the difference on the inputs tried")
    outputs = judge.alignment.a.outputs
    flaws = {name: flaw for name in outputs if (flaw := variation.flaw(name))}
    is_blind = bool(outputs) and len(flaws) == len(set(outputs))
    provoked = _Provoked(judge, variation, decides=is_blind or judge.weights_copied)
    differing: list[Group] = []
    untested: list[Group] = []
    candidates = provoked.candidates(groups)
    untested += [groups[index] for index in candidates[MAX_PROVOKED:]]
    for index in candidates[:MAX_PROVOKED]:
        group, is_tested = provoked.test(index, groups[index])
        groups[index] = group
        if group.status is Status.DIFFERENT:
            differing.append(group)
        if not is_tested:
            untested.append(group)
    if not is_blind:
        return Agreement(groups, differing, "on other inputs these layers do not", flaws)
    names = ", ".join(f"{name!r} is {flaw}" for name, flaw in flaws.items())
    return Agreement(groups, differing, f"output {names} on the inputs tried", flaws, _layers(untested))


def _differs(group: Group, tolerance: float) -> bool:
    """Whether a group computes something else, by more than rounding."""
    if group.status is Status.DIFFERENT:
        return group.graft_error is None or group.graft_error > tolerance
    return group.status in {Status.ONLY_A, Status.ONLY_B}


def _masks(judge: Judge, groups: Sequence[Group], tolerance: float) -> list[Group]:
    """Return the groups that hide a difference: they agree though what they read does not.

    A group that makes up for the difference, as a layer of half the weights does after one of twice the
    weights, would not agree on A's own inputs.
    """
    apart: tuple[set[str], set[str]] = (set(), set())
    for draft, group in zip(judge.drafts, groups, strict=True):
        if _is_apart(group, tolerance):
            for side, signals in enumerate((judge.alignment.a, judge.alignment.b)):
                apart[side].update(name for node in draft.nodes[side] for name in signals.outputs_of(node))
    apart[0].difference_update(name for name in set(apart[0]) if judge.is_proven_signal(name))
    proven_b = {judge.alignment.of_a[a].b for a in judge.alignment.of_a if judge.is_proven_signal(a)}
    apart[1].difference_update(proven_b)
    return [
        group
        for draft, group in zip(judge.drafts, groups, strict=True)
        if draft.is_pair
        and not _is_apart(group, tolerance)
        and _reads(judge, draft, apart)
        and _agrees_on_inputs_of_a(judge, draft, group)
    ]


def _is_apart(group: Group, tolerance: float) -> bool:
    """Whether a group's own results differ, or nobody knows."""
    if group.status in {Status.ONLY_A, Status.ONLY_B}:
        return True
    return group.status is Status.UNKNOWN if group.error is None else group.error > tolerance


def _reads(judge: Judge, draft: Draft, apart: tuple[set[str], set[str]]) -> bool:
    sides = enumerate((judge.alignment.a, judge.alignment.b))
    return any(
        not apart[side].isdisjoint(signals.inputs_of(node))
        for side, signals in sides
        for node in draft.nodes[side]
    )


def _agrees_on_inputs_of_a(judge: Judge, draft: Draft, group: Group) -> bool:
    error = group.graft_error
    if error is None:
        (graft,) = judge.grafter().run([draft])
        error = graft.error
    return error is not None and error <= LOCAL_TOLERANCE


class _Provoked:
    """Tests groups on drawn inputs, where those of the net say nothing.

    Args:
        judge: The judge of the groups.
        variation: Which signals of A depend on the input.
        decides: Whether what differs on drawn inputs makes the nets different: where no output proves
            anything, or the weights are stand-ins, and with them what a layer happens to read.
    """

    def __init__(self, judge: Judge, variation: Variation, *, decides: bool) -> None:
        self._judge = judge
        self._variation = variation
        self._decides = decides

    def candidates(self, groups: Sequence[Group]) -> list[int]:
        """Return the places of the groups that agree on tensors that prove nothing."""
        return [
            index
            for index, (draft, group) in enumerate(zip(self._judge.drafts, groups, strict=True))
            if draft.is_pair
            and group.status is not Status.DIFFERENT
            and (self._is_blind(draft) or (self._judge.weights_copied and _is_unlike(draft)))
        ]

    def _is_blind(self, draft: Draft) -> bool:
        signals = self._judge.alignment.a
        inside = {name for node in draft.nodes[0] for name in signals.outputs_of(node)}
        read = [n for node in draft.nodes[0] for n in signals.inputs_of(node) if n not in inside]
        return any(map(self._variation.flaw, [*read, *(name for name, _ in draft.outputs)]))

    def test(self, index: int, group: Group) -> tuple[Group, bool]:
        """Return a group as its test on drawn inputs leaves it, and whether the test says anything."""
        draft = self._judge.drafts[index]
        grafts, says_something = self._grafts(draft)
        worst = max((g for g in grafts if g.error is not None), key=lambda g: g.error or 0.0, default=None)
        if worst is None or worst.error is None or worst.error <= LOCAL_TOLERANCE:
            return group, says_something
        finding = self._judge.explain(draft, worst)
        if finding.trap is None:
            return group, False
        status = Status.DIFFERENT if self._decides else Status.LATENT
        finding = replace(finding, latent=not self._decides)
        return replace(group, status=status, graft_error=worst.error, finding=finding), True

    def _grafts(self, draft: Draft) -> tuple[list[Graft], bool]:
        """Return graft tests on drawn inputs, and whether the outputs depend on them."""
        judge = self._judge
        runs = []
        grafts = []
        for seed, scale in enumerate(SCALES):
            try:
                tensors = _on_drawn(judge.alignment.a, draft, judge.tensors_a, seed=seed, scale=scale)
            except NetweaveError:
                return [], False
            grafter = Grafter(judge.alignment, ChainMap(tensors, dict(judge.tensors_a)), judge.tensors_b)
            grafts += grafter.run([draft])
            runs.append(tensors)
        flaws = Variation(judge.alignment.a, runs)
        return grafts, not all(flaws.flaw(name) for name, _ in draft.outputs)


def _is_unlike(draft: Draft) -> bool:
    """Whether the nodes of a group are other operators in B, or have other settings."""
    op_types = [[(node.domain, node.op_type) for node in nodes] for nodes in draft.nodes]
    return op_types[0] != op_types[1] or any(differences(a, b) for a, b in zip(*draft.nodes, strict=True))


def _on_drawn(
    signals: Signals, draft: Draft, tensors: Mapping[str, np.ndarray], *, seed: int, scale: float
) -> dict[str, np.ndarray]:
    """Run A's nodes of a group on noise; return what they read and make, by signal."""
    generator = np.random.default_rng(seed)
    names = [a for a, _ in draft.outputs]
    builder = PieceBuilder(signals)
    inside = {name for node in draft.nodes[0] for name in signals.outputs_of(node)}
    read = {n for node in draft.nodes[0] for n in signals.inputs_of(node) if n not in inside}
    shapes = {name: tensors[name].shape for name in read if name in tensors}
    fed = builder.add(draft.nodes[0], names, shapes, prefix="")
    feeds = {name: _drawn_like(tensors[name], generator, scale) for name in fed if name in tensors}
    found = prepare(builder.finish()).run(feeds)
    return {**feeds, **{name: found[name] for name in names}}


def _drawn_like(x: np.ndarray, generator: np.random.Generator, scale: float) -> np.ndarray:
    """Return noise in the place of a tensor; indices and conditions stay as they are."""
    return (generator.standard_normal(x.shape) * scale).astype(x.dtype) if x.dtype.kind == "f" else x


def _layers(groups: Sequence[Group]) -> list[str]:
    return list(dict.fromkeys(name for group in groups for name in (group.layers_a or group.nodes_a)))


def _listed(groups: Sequence[Group]) -> str:
    names = _layers(groups)
    return ", ".join(names[:MAX_NAMES]) + (", ..." if len(names) > MAX_NAMES else "")
