"""Alignment by structure: pairs grow along edges from seeds; what lies between is aligned as a sequence.

This is how binaries of one program from two compilers are aligned: unique matches first, then their
neighbours, then, in the gaps only, the best alignment of what is left. Pairs from a gap are guesses.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import Alignment, SignalPair
from netweave.comparison.align.chains import FILTERS as CHAINED
from netweave.comparison.align.chains import chain_from
from netweave.comparison.align.contexts import COMMUTATIVE, Contexts
from netweave.comparison.align.sequences import best_in_order, common_subsequence, increasing
from netweave.comparison.align.weights import filter_shape, stand_in
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import Signals, family_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

MAX_GAP = 1500
"""Gaps with more nodes on a side stay unaligned: their alignment would say nothing."""

MAX_CHAIN = 300
"""Longer chains are aligned as other gaps are."""

OF_A_KIND = 1000
"""What it counts that two nodes of a chain are of a kind; that they agree in more only tells them apart."""

KINDS, SIZES, FILTERS, BOTH = range(4)
"""What of two nodes has to agree: what they do; what comes out, too, or what is stored for it, or both."""


class Extension:
    """Grows an alignment along edges.

    New pairs go first: from the same weights on, a path is followed to its end before the next one is begun.

    Args:
        alignment: The pairs so far, the seeds; grown in place.
        tensors_a: Tapped tensors of A, for their sizes.
        tensors_b: Tapped tensors of B, for their sizes.
    """

    def __init__(
        self,
        alignment: Alignment,
        tensors_a: Mapping[str, np.ndarray],
        tensors_b: Mapping[str, np.ndarray],
    ) -> None:
        self._pairs = alignment
        self._tensors = (tensors_a, tensors_b)
        self._signals: deque[tuple[str, str]] = deque()
        self._nodes: deque[tuple[ir.Node, ir.Node]] = deque()
        self._contexts = Contexts(alignment.a, alignment.b)

    def run(self) -> None:
        """Grow along edges: where filters and sizes agree, then one of them, then the kind; fill the gaps.

        Sizes say nothing behind a layer that makes another size than its counterpart; filters do.
        """
        for detail in (BOTH, FILTERS, SIZES, KINDS):
            self._grow(detail)
        if self._fill_chains():
            self._grow(KINDS)
        for detail in (BOTH, SIZES, FILTERS):
            while self._fill_gaps(detail):
                self._grow(KINDS)

    def seed(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> None:
        """Take a pair of nodes in, and queue it."""
        if self._pairs.pair_nodes(a, b, evidence):
            self._nodes.append((a, b))

    def _grow(self, detail: int) -> None:
        a = self._pairs.a
        self._signals.extend((pair.a, pair.b) for pair in self._pairs.of_a.values())
        self._nodes.extend((n, p) for n in a.nodes if (p := self._pairs.partner(n)) is not None)
        while self._signals or self._nodes:
            while self._nodes:
                self._around(*self._nodes.popleft())
            if self._signals:
                self._after(*self._signals.popleft(), detail)

    def _pair(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> None:
        if self._pairs.pair_nodes(a, b, evidence):
            self._nodes.append((a, b))

    def _after(self, name_a: str, name_b: str, detail: int) -> None:
        """Pair the nodes that read a pair of signals, and those that make it, where there is no choice."""
        a, b = self._pairs.a, self._pairs.b
        readers_a, readers_b = self._readers(name_a, name_b)
        for node_a, node_b in self._unique(readers_a, readers_b, detail):
            self._pair(node_a, node_b, Evidence.STRUCTURE)
        made_a, made_b = a.producer.get(name_a), b.producer.get(name_b)
        if made_a is not None and made_b is not None and stand_in(made_a, made_b):
            self._pair(made_a, made_b, Evidence.STRUCTURE)

    def _readers(self, name_a: str, name_b: str) -> tuple[list[ir.Node], list[ir.Node]]:
        """Return the unpaired readers of two signals; behind a padding, where only one net has one."""
        found: list[list[ir.Node]] = []
        for signals, known, name in (
            (self._pairs.a, self._pairs.node_of_a, name_a),
            (self._pairs.b, self._pairs.node_of_b, name_b),
        ):
            found.append([node for node in signals.consumers.get(name, ()) if id(node) not in known])
        is_padded = [any(node.op_type == "Pad" for node in nodes) for nodes in found]
        if is_padded[0] != is_padded[1]:
            side = is_padded.index(True)
            signals = (self._pairs.a, self._pairs.b)[side]
            found[side] = [
                reader
                for node in found[side]
                for reader in (_behind(signals, node) if node.op_type == "Pad" else [node])
            ]
        return found[0], found[1]

    def _around(self, node_a: ir.Node, node_b: ir.Node) -> None:
        """Pair what a pair of nodes makes, and what it reads."""
        a, b = self._pairs.a, self._pairs.b
        ends = self._ends(node_a, node_b)
        for out_a, out_b in zip(a.outputs_of(ends[0]), b.outputs_of(ends[1]), strict=False):
            self._pair_signals(out_a, out_b)
        ins_a = [s for s in a.inputs_of(node_a) if s not in self._pairs.of_a]
        ins_b = [s for s in b.inputs_of(node_b) if s not in self._pairs.of_b]
        if len(ins_a) != len(ins_b):
            return
        if len(ins_a) > 1 and node_a.op_type in COMMUTATIVE:
            ins_a.sort(key=lambda s: self._producer_key(0, s))
            ins_b.sort(key=lambda s: self._producer_key(1, s))
        for in_a, in_b in zip(ins_a, ins_b, strict=True):
            if self._producer_key(0, in_a) == self._producer_key(1, in_b):
                self._pair_signals(in_a, in_b)

    def _ends(self, node_a: ir.Node, node_b: ir.Node) -> tuple[ir.Node, ir.Node]:
        """Return the nodes whose outputs belong together: after filters the last scalings, if cut apart."""
        if family_of(node_a) not in CHAINED or family_of(node_b) not in CHAINED:
            return node_a, node_b
        chain_a, chain_b = chain_from(self._pairs.a, node_a), chain_from(self._pairs.b, node_b)
        return (node_a, node_b) if len(chain_a) == len(chain_b) else (chain_a[-1], chain_b[-1])

    def _pair_signals(self, name_a: str, name_b: str) -> None:
        if self._pairs.pair_signals(SignalPair(name_a, name_b, Evidence.STRUCTURE)):
            self._signals.appendleft((name_a, name_b))

    def _producer_key(self, side: int, signal: str) -> tuple[str, tuple[int, ...]]:
        signals = (self._pairs.a, self._pairs.b)[side]
        made = signals.producer.get(signal)
        return ("input" if made is None else family_of(made)), self._size(side, signal)

    def _size(self, side: int, signal: str) -> tuple[int, ...]:
        x = self._tensors[side].get(signal)
        return () if x is None else tuple(sorted(size for size in x.shape[1:] if size != 1))

    def _key(self, side: int, node: ir.Node, detail: int) -> Hashable:
        signals = (self._pairs.a, self._pairs.b)[side]
        outputs = signals.outputs_of(node)
        size = self._size(side, outputs[0]) if detail in {SIZES, BOTH} and outputs else None
        filters = filter_shape(node) if detail in {FILTERS, BOTH} else None
        return family_of(node), size, filters

    def _unique(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], detail: int
    ) -> list[tuple[ir.Node, ir.Node]]:
        """Return the pairs whose key occurs once on each side, or that names or what follows tell apart."""
        keyed_a, keyed_b = defaultdict(list), defaultdict(list)
        for node in nodes_a:
            keyed_a[self._key(0, node, detail)].append(node)
        for node in nodes_b:
            keyed_b[self._key(1, node, detail)].append(node)
        found = []
        for key, group_a in keyed_a.items():
            group_b = keyed_b.get(key, [])
            if len(group_a) == len(group_b) == 1:
                found.append((group_a[0], group_b[0]))
            elif group_b:
                found += self._told_apart(group_a, group_b)
        return found or self._dense(nodes_a, nodes_b)

    def _dense(self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
        """Return the one pair of a dense layer and a convolution that stands for it."""
        found = [(a, b) for a in nodes_a for b in nodes_b if family_of(a) != family_of(b) and stand_in(a, b)]
        return found if len(found) == 1 else []

    def _told_apart(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        """Pair nodes of one key: by their names, by what follows them, by the last part of their names."""
        found: list[tuple[ir.Node, ir.Node]] = []
        for way in (self._by_name, self._contexts.pairs, self._by_last_name):
            taken = {id(node) for pair in found for node in pair}
            left_a, left_b = ([n for n in nodes if id(n) not in taken] for nodes in (nodes_a, nodes_b))
            found += way(left_a, left_b) if left_a and left_b else []
        return found

    def _by_name(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        names_b = {layer_names(self._pairs.b, node): node for node in nodes_b}
        found = []
        for node in nodes_a:
            name = layer_names(self._pairs.a, node)
            if name and name in names_b:
                found.append((node, names_b.pop(name)))
        return found

    def _by_last_name(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        names = [
            [_last_name(layer_names(signals, node)) for node in nodes]
            for signals, nodes in ((self._pairs.a, nodes_a), (self._pairs.b, nodes_b))
        ]
        once = {name for name in names[0] if name and names[0].count(name) == names[1].count(name) == 1}
        return [(nodes_a[names[0].index(name)], nodes_b[names[1].index(name)]) for name in sorted(once)]

    def _fill_chains(self) -> bool:
        """Align gaps in which each node reads the one before; say whether anything was paired.

        There the order says what belongs together, also where no layer has the sizes of its counterpart.
        """
        changed = False
        for gap_a, gap_b in _gaps(self._pairs):
            if not (_is_chain(self._pairs.a, gap_a) and _is_chain(self._pairs.b, gap_b)):
                continue
            for i, j in best_in_order([[self._likeness(a, b) for b in gap_b] for a in gap_a]):
                changed |= self._guess(gap_a[i], gap_b[j])
        return changed

    def _likeness(self, a: ir.Node, b: ir.Node) -> int:
        if family_of(a) != family_of(b):
            return 0
        return OF_A_KIND + sum(
            self._key(0, a, detail) == self._key(1, b, detail) for detail in (SIZES, FILTERS)
        )

    def _fill_gaps(self, detail: int) -> bool:
        """Align what is left between neighbouring pairs as sequences; say whether anything was paired."""
        changed = False
        for gap_a, gap_b in _gaps(self._pairs):
            if not gap_a or not gap_b or max(len(gap_a), len(gap_b)) > MAX_GAP:
                continue
            keys_a = [self._key(0, node, detail) for node in gap_a]
            keys_b = [self._key(1, node, detail) for node in gap_b]
            for i, j in common_subsequence(keys_a, keys_b):
                changed |= self._guess(gap_a[i], gap_b[j])
        return changed

    def _guess(self, a: ir.Node, b: ir.Node) -> bool:
        name = layer_names(self._pairs.a, a)
        same = bool(name) and name == layer_names(self._pairs.b, b)
        if self._pairs.pair_nodes(a, b, Evidence.NAME if same else Evidence.GUESS):
            self._nodes.append((a, b))
            return True
        return False


def _behind(signals: Signals, node: ir.Node) -> list[ir.Node]:
    return [reader for name in signals.outputs_of(node) for reader in signals.consumers.get(name, ())]


def layer_names(signals: Signals, node: ir.Node) -> str:
    """Return the names of a node's layers as one text."""
    return "+".join(layer.name for layer in signals.graph.layers_of(node))


def _last_name(name: str) -> str:
    """Return what ports keep of a layer's name.

    >>> _last_name("model1_1.conv5_1_CPM_L1"), _last_name("conv5_1-CPM_L1")
    ('conv51cpml1', 'conv51cpml1')
    """
    return "".join(filter(str.isalnum, name.rpartition(".")[2])).lower()


def _is_chain(signals: Signals, nodes: Sequence[ir.Node]) -> bool:
    """Whether nodes are few, and nobody but the next one reads what each of them makes."""
    return 0 < len(nodes) <= MAX_CHAIN and all(
        [reader for made in signals.outputs_of(node) for reader in signals.consumers.get(made, ())] == [after]
        for node, after in itertools.pairwise(nodes)
    )


def _gaps(pairs: Alignment) -> list[tuple[list[ir.Node], list[ir.Node]]]:
    """Return what is unpaired between neighbouring pairs of the longest chain that runs the same way."""
    a, b = pairs.a, pairs.b
    anchors = [
        (i, b.position[id(partner)])
        for i, node in enumerate(a.nodes)
        if (partner := pairs.partner(node)) is not None
    ]
    chain = [(-1, -1), *increasing(anchors), (len(a.nodes), len(b.nodes))]
    gaps = []
    for (i0, j0), (i1, j1) in itertools.pairwise(chain):
        gap_a = [n for n in a.nodes[i0 + 1 : i1] if id(n) not in pairs.node_of_a]
        gap_b = [n for n in b.nodes[j0 + 1 : j1] if id(n) not in pairs.node_of_b]
        gaps.append((gap_a, gap_b))
    return gaps
