"""From drafts to groups: which are proven, which carry an error, which are wrong, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.align.groups import Draft, build_groups
from netweave.comparison.align.wording import describe_axes
from netweave.comparison.explain.causes import NOTHING_UNFILLED, Explainer, Unfilled, shaped_finding, where
from netweave.comparison.explain.graft import Graft, Grafter
from netweave.comparison.explain.latent import hidden_by_copies, latent_finding
from netweave.comparison.explain.missing import missing_finding
from netweave.comparison.explain.moved import find_moved
from netweave.comparison.explain.passage import is_passage
from netweave.comparison.explain.promises import broken_promises
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.result.comparison import Evidence, Finding, Group, Status, TensorMapping
from netweave.graph import layer_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment

MAX_EXPLAINED = 40
"""Wrong groups beyond this many are reported without looking for their cause."""


@dataclass(slots=True)
class Judge:
    """Judges the groups of one pair of nets.

    Attributes:
        alignment: Pairs of signals and nodes.
        tensors_a: Tapped tensors of A.
        tensors_b: Tapped tensors of B.
        unfilled: Keys of A's and of B's parameters that have no values of their own and were given none.
        weights_copied: Whether one net's weights are copies of the other's.
        reordered: Names of the dense nodes whose weights were copied with their columns in another order.
        drafts: The groups before they were judged, in the order of ``groups``.
    """

    alignment: Alignment
    tensors_a: Mapping[str, np.ndarray]
    tensors_b: Mapping[str, np.ndarray]
    unfilled: Unfilled = NOTHING_UNFILLED
    weights_copied: bool = False
    reordered: AbstractSet[str] = frozenset()
    drafts: list[Draft] = field(default_factory=list)
    _explained: int = field(default=0)
    _moved: dict[int, str] = field(default_factory=dict)
    _broken: dict[int, Finding] = field(default_factory=dict)

    def num_wrong(self) -> int:
        """Return how many groups do not do what A's do, without looking for the cause."""
        drafts = build_groups(self.alignment)
        doubtful = [draft for draft in drafts if draft.is_pair and not self._is_proven(draft)]
        grafts = self.grafter().run(doubtful)
        wrong = sum(graft.error is None or graft.error > LOCAL_TOLERANCE for graft in grafts)
        return wrong + sum(not draft.is_pair for draft in drafts)

    def groups(self) -> list[Group]:
        """Return all groups, judged, in A's order."""
        self.drafts = drafts = build_groups(self.alignment)
        self._moved = find_moved(self.alignment, drafts)
        self._broken = broken_promises(self.alignment, self.tensors_a, self.tensors_b)
        doubtful = [draft for draft in drafts if draft.is_pair and not self._is_proven(draft)]
        grafts = dict(zip(map(id, doubtful), self.grafter().run(doubtful), strict=True))
        return [self._group(draft, grafts.get(id(draft))) for draft in drafts]

    def grafter(self) -> Grafter:
        """Return what tests B's nodes of a group on A's inputs."""
        return Grafter(self.alignment, self.tensors_a, self.tensors_b)

    def explain(self, draft: Draft, graft: Graft) -> Finding:
        """Return what is wrong with a group that failed a graft test."""
        return self._explainer().explain(draft, graft)

    def _explainer(self) -> Explainer:
        pairs = self.alignment
        return Explainer(pairs.a, pairs.b, pairs.turn, pairs.of_b, self.unfilled)

    def is_proven_signal(self, name_a: str) -> bool:
        """Whether a signal of A has a counterpart in B that holds the same values."""
        pair = self.alignment.of_a.get(name_a)
        return pair is not None and pair.evidence is Evidence.VALUES

    def _is_proven(self, draft: Draft) -> bool:
        pairs = self.alignment.of_a
        return bool(draft.outputs) and all(
            self.is_proven_signal(name_a) and pairs[name_a].b == name_b for name_a, name_b in draft.outputs
        )

    def _group(self, draft: Draft, graft: Graft | None) -> Group:
        group = Group(
            nodes_a=_names(draft.nodes[0]),
            nodes_b=_names(draft.nodes[1]),
            layers_a=_layers(draft.nodes[0]),
            layers_b=_layers(draft.nodes[1]),
            evidence=draft.evidence,
            status=Status.UNKNOWN,
        )
        if not draft.is_pair:
            return self._alone(draft, group)
        if graft is None:
            return self._proven(draft, group)
        return self._grafted(draft, graft, group)

    def _proven(self, draft: Draft, group: Group) -> Group:
        pairs = [self.alignment.of_a[name_a] for name_a, _ in draft.outputs]
        mapping = pairs[0].mapping
        broken = next((self._broken[id(node)] for node in draft.nodes[1] if id(node) in self._broken), None)
        finding = broken or self._latent(draft)
        mapped = mapping is not None and not mapping.is_identity
        status = Status.LATENT if finding else Status.MAPPED if mapped else Status.EQUAL
        status = Status.DIFFERENT if broken else status
        return replace(
            group,
            evidence=Evidence.VALUES,
            status=status,
            error=max((pair.error or 0.0) for pair in pairs),
            mapping=_described(mapping, draft.outputs[0]) if mapped else None,
            finding=finding,
        )

    def _grafted(self, draft: Draft, graft: Graft, group: Group) -> Group:
        error = self._own_error(draft, graft)
        if graft.error is None:
            layer_a, place_a = where(self.alignment.a, draft.nodes[0][0])
            layer_b, place_b = where(self.alignment.b, draft.nodes[1][0])
            note = Finding(
                trap=None,
                cause=f"could not be tested alone: {graft.reason}",
                place_a=place_a,
                place_b=place_b,
                layer_a=layer_a,
                layer_b=layer_b,
            )
            shaped = shaped_finding(self.alignment.a, self.alignment.b, draft, [])
            status = Status.DIFFERENT if shaped is not None and shaped.trap else Status.UNKNOWN
            return replace(group, status=status, error=error, finding=shaped or note)
        group = replace(group, error=error, graft_error=graft.error)
        if graft.error <= LOCAL_TOLERANCE:
            finding = self._latent(draft)
            status = Status.CARRIED if error is None or error > LOCAL_TOLERANCE else Status.EQUAL
            evidence = Evidence.VALUES
            return replace(group, status=status, evidence=evidence, finding=finding)
        if any(self.unfilled) and self._explainer().agrees_when_filled(draft, graft):
            return replace(group, status=Status.CARRIED)
        self._explained += 1
        if self._explained > MAX_EXPLAINED:
            return replace(group, status=Status.DIFFERENT)
        return replace(group, status=Status.DIFFERENT, finding=self.explain(draft, graft))

    def _latent(self, draft: Draft) -> Finding | None:
        found = latent_finding(self.alignment, self.tensors_a, draft, turn=self.alignment.turn)
        if found is not None or not self.weights_copied:
            return found
        return hidden_by_copies(self.alignment, draft, self.reordered)

    def _own_error(self, draft: Draft, graft: Graft) -> float | None:
        errors = []
        for name_a, name_b in draft.outputs:
            pair = self.alignment.of_a.get(name_a)
            if pair is not None and pair.b == name_b and pair.error is not None:
                errors.append(pair.error)
            elif name_b in graft.mappings and name_b in self.tensors_b:
                wanted = graft.mappings[name_b].apply(self.tensors_a[name_a])
                errors.append(relative_error(wanted, self.tensors_b[name_b]))
        return max(errors, default=None)

    def _alone(self, draft: Draft, group: Group) -> Group:
        side = 0 if draft.nodes[0] else 1
        signals = (self.alignment.a, self.alignment.b)[side]
        tensors = (self.tensors_a, self.tensors_b)[side]
        nodes = draft.nodes[side]
        grafter = Grafter(self.alignment, self.tensors_a, self.tensors_b)
        without_effect = is_passage(signals, nodes, tensors, grafter.run_alone if side else _not_run)
        moved = self._moved.get(id(draft))
        finding = missing_finding(self.alignment, nodes, side=side, moved=moved, latent=without_effect)
        status = Status.ONLY_A if side == 0 else Status.ONLY_B
        if moved and side == 1:
            return replace(group, status=status)
        effects = {True: Status.LATENT, False: status, None: Status.UNKNOWN}
        return replace(group, status=effects[without_effect], finding=finding)


def _not_run(nodes: Sequence[ir.Node], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
    """Run none of A's nodes: A has run, and what it has no values of cannot be run."""
    return {}


def _described(mapping: TensorMapping | None, names: tuple[str, str]) -> TensorMapping | None:
    if mapping is None:
        return None
    return replace(mapping, a=names[0], b=names[1], text=describe_axes(mapping))


def _names(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(str(node.name) for node in nodes)


def _layers(nodes: Sequence[ir.Node]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for node in nodes for key in layer_keys(node)))
