"""From pairs to groups: every node of both nets in exactly one group of m nodes against n nodes.

A pair of nodes is a group; so is a filter with its scalings where the two nets cut them differently. What is
left forms regions, and a region of A joins the region of B at the same place. A region with nothing at its
place is only in one net.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import ELEMENTWISE, family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator

    import onnx_ir as ir

    from netweave.comparison.align.alignment import Alignment
from netweave.comparison.align.chains import find_segments
from netweave.comparison.align.parts import release_parts


@dataclass(slots=True, eq=False)
class Draft:
    """A group before it is judged.

    Attributes:
        nodes: A's nodes and B's nodes, each in topological order.
        evidence: Why they are taken for each other.
        outputs: Pairs (signal of A, signal of B) that the group makes and that should agree.
    """

    nodes: tuple[list[ir.Node], list[ir.Node]]
    evidence: Evidence
    outputs: list[tuple[str, str]] = field(default_factory=list)

    @property
    def is_pair(self) -> bool:
        """Whether both nets have nodes in it."""
        return bool(self.nodes[0]) and bool(self.nodes[1])


def build_groups(alignment: Alignment) -> list[Draft]:
    """Return the groups in A's order; what is only in B stands after what comes before it."""
    release_parts(alignment)
    return _Builder(alignment).build()


def _place(position: dict[int, int], node: ir.Node) -> int:
    return position[id(node)]


class _Builder:
    def __init__(self, alignment: Alignment) -> None:
        self._pairs = alignment
        self._signals = (alignment.a, alignment.b)
        self._owner: tuple[dict[int, Draft], dict[int, Draft]] = ({}, {})
        self._drafts: list[Draft] = []

    def build(self) -> list[Draft]:
        for nodes_a, nodes_b in find_segments(self._pairs):
            self._new(nodes_a, nodes_b, self._evidence(nodes_a))
        for node in self._signals[0].nodes:
            partner = self._pairs.node_of_a.get(id(node))
            if partner is None or self._is_part(node, *partner):
                continue
            if self._is_free(0, node) and self._is_free(1, partner[0]):
                self._new([node], [partner[0]], partner[1])
        for draft in list(self._drafts):
            if draft.is_pair:
                self._absorb(draft)
        regions = [self._regions(side) for side in (0, 1)]
        self._join(regions[0], regions[1])
        for draft in self._drafts:
            for side, position in enumerate((self._pairs.a.position, self._pairs.b.position)):
                draft.nodes[side].sort(key=partial(_place, position))
            draft.outputs = self._outputs(draft)
        return self._in_order()

    def _evidence(self, nodes_a: list[ir.Node]) -> Evidence:
        """Return the strongest evidence that any node of a segment has."""
        known = [self._pairs.node_of_a[id(node)][1] for node in nodes_a if id(node) in self._pairs.node_of_a]
        return min(known, key=list(Evidence).index, default=Evidence.STRUCTURE)

    def _new(self, a: list[ir.Node], b: list[ir.Node], evidence: Evidence) -> Draft:
        draft = Draft((a, b), evidence)
        self._drafts.append(draft)
        for side, nodes in enumerate((a, b)):
            for node in nodes:
                self._owner[side][id(node)] = draft
        return draft

    def _is_free(self, side: int, node: ir.Node) -> bool:
        return id(node) not in self._owner[side]

    def _is_part(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> bool:
        """Whether two unlike activations were taken for each other, of which one is part of a larger one."""
        if evidence is Evidence.VALUES or a.op_type == b.op_type or not {a.op_type, b.op_type} <= ELEMENTWISE:
            return False
        return any(
            other.op_type in ELEMENTWISE and self._is_unpaired(side, other)
            for side, node in enumerate((a, b))
            for other in self._neighbours(side, node)
        )

    def _is_unpaired(self, side: int, node: ir.Node) -> bool:
        known = (self._pairs.node_of_a, self._pairs.node_of_b)[side]
        return id(node) not in known and self._is_free(side, node)

    def _neighbours(self, side: int, node: ir.Node) -> Iterator[ir.Node]:
        """Yield the nodes that make what a node reads, and those that read what it makes."""
        signals = self._signals[side]
        yield from (signals.producer[s] for s in signals.inputs_of(node) if s in signals.producer)
        for name in signals.outputs_of(node):
            yield from signals.consumers.get(name, ())

    def _absorb(self, draft: Draft) -> None:
        """Take free nodes that only lead up to a pair into its group.

        Before scalings these are scalings, before all others padding; and where the values of a pair are
        proven equal, whatever there is.
        """
        is_affine = family_of(draft.nodes[0][0]) == "affine"
        for side in (0, 1):
            if self._is_proven(draft):
                self._absorb_sources(side, draft, lambda node: True)
            elif is_affine:
                self._absorb_sources(side, draft, lambda node: family_of(node) == "affine")
            else:
                self._absorb_sources(side, draft, lambda node: node.op_type == "Pad")

    def _is_proven(self, draft: Draft) -> bool:
        names = self._signals[0].outputs_of(draft.nodes[0][-1])
        pairs = [self._pairs.of_a.get(name) for name in names]
        return any(pair is not None and pair.evidence is Evidence.VALUES for pair in pairs)

    def _absorb_sources(self, side: int, draft: Draft, wanted: Callable[[ir.Node], bool]) -> None:
        signals = self._signals[side]
        known = self._pairs.of_a if side == 0 else self._pairs.of_b
        waiting = list(draft.nodes[side])
        while waiting:
            for signal in signals.inputs_of(waiting.pop()):
                made = signals.producer.get(signal)
                if made is None or signal in known or signal in signals.outputs:
                    continue
                owned = all(self._owner[side].get(id(n)) is draft for n in signals.consumers[signal])
                if owned and self._is_free(side, made) and wanted(made):
                    self._take(side, draft, made)
                    waiting.append(made)

    def _take(self, side: int, draft: Draft, node: ir.Node) -> None:
        draft.nodes[side].append(node)
        self._owner[side][id(node)] = draft

    def _regions(self, side: int) -> list[list[ir.Node]]:
        """Return the free nodes as regions connected by signals that have no proven partner."""
        signals = self._signals[side]
        proven = self._pairs.of_a if side == 0 else self._pairs.of_b
        free = [node for node in signals.nodes if self._is_free(side, node)]
        region: dict[int, list[ir.Node]] = {}
        for node in free:
            mine = [node]
            for signal in signals.inputs_of(node):
                made = signals.producer.get(signal)
                pair = proven.get(signal)
                if made is None or id(made) not in region or (pair and pair.evidence is Evidence.VALUES):
                    continue
                other = region[id(made)]
                if other is not mine:
                    other.extend(mine)
                    for moved in mine:
                        region[id(moved)] = other
                    mine = other
            region[id(node)] = mine
        unique = {id(nodes): nodes for nodes in region.values()}
        return list(unique.values())

    def _join(self, regions_a: list[list[ir.Node]], regions_b: list[list[ir.Node]]) -> None:
        places: dict[Hashable, int] = {}
        for index, nodes in enumerate(regions_b):
            for key in self._places(1, nodes):
                places.setdefault(key, index)
        joined: dict[int, list[ir.Node]] = defaultdict(list)
        alone: list[list[ir.Node]] = []
        for nodes in regions_a:
            hits = [places[key] for key in self._places(0, nodes) if key in places]
            if hits:
                joined[hits[0]] += nodes
            else:
                alone.append(nodes)
        for index, nodes in enumerate(regions_b):
            self._new(joined.get(index, []), nodes, Evidence.STRUCTURE if index in joined else Evidence.GUESS)
        for nodes in alone:
            self._new(nodes, [], Evidence.GUESS)

    def _places(self, side: int, nodes: list[ir.Node]) -> list[Hashable]:
        """Return keys, the same for both nets, of what a region gives its values to."""
        signals = self._signals[side]
        inside = {id(node) for node in nodes}
        keys: list[Hashable] = []
        for node in nodes:
            for name in signals.outputs_of(node):
                pair = (self._pairs.of_a if side == 0 else self._pairs.of_b).get(name)
                if pair is not None:
                    keys.append(("signal", pair.a))
                for reader in signals.consumers.get(name, ()):
                    draft = self._owner[side].get(id(reader))
                    if id(reader) not in inside and draft is not None:
                        keys.append(("reader", id(draft)))
                if name in signals.outputs:
                    keys.append(("output", signals.outputs.index(name)))
        return keys

    def _outputs(self, draft: Draft) -> list[tuple[str, str]]:
        """Return the pairs of signals that leave the group, or end in it."""
        leaving = [self._leaving(side, draft.nodes[side]) for side in (0, 1)]
        known = [
            (name, self._pairs.of_a[name].b)
            for name in leaving[0]
            if name in self._pairs.of_a and self._pairs.of_a[name].b in leaving[1]
        ]
        if known and len(known) == len(leaving[0]):
            return known
        rest_a = [name for name in leaving[0] if name not in {a for a, _ in known}]
        rest_b = [name for name in leaving[1] if name not in {b for _, b in known}]
        return known + list(zip(rest_a, rest_b, strict=False))

    def _leaving(self, side: int, nodes: Iterable[ir.Node]) -> list[str]:
        signals = self._signals[side]
        inside = {id(node) for node in nodes}
        ends = set(signals.outputs)
        return [
            name
            for node in nodes
            for name in signals.outputs_of(node)
            if name in ends or any(id(reader) not in inside for reader in signals.consumers.get(name, ()))
        ]

    def _in_order(self) -> list[Draft]:
        position_a, position_b = (signals.position for signals in self._signals)
        with_a = [draft for draft in self._drafts if draft.nodes[0]]
        with_a.sort(key=lambda draft: position_a[id(draft.nodes[0][0])])
        place_b = {id(node): index for index, draft in enumerate(with_a) for node in draft.nodes[1]}
        only_b = [draft for draft in self._drafts if not draft.nodes[0]]
        keyed: list[tuple[int, int, Draft]] = [(index, -1, draft) for index, draft in enumerate(with_a)]
        for draft in only_b:
            start = position_b[id(draft.nodes[1][0])]
            before = [place_b[id(n)] for n in self._signals[1].nodes[:start] if id(n) in place_b]
            keyed.append((max(before, default=-1), start, draft))
        return [draft for _, _, draft in sorted(keyed, key=lambda row: row[:2])]
