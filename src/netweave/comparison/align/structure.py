"""Alignment by structure: pairs grow along edges from seeds; what lies between is aligned as a sequence.

This is how binaries of one program from two compilers are aligned: unique matches first, then their
neighbours, then, in the gaps only, the best alignment of what is left. Pairs from a gap are guesses.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import (
    Alignment,
    SignalPair,
    best_in_order,
    common_subsequence,
    increasing,
)
from netweave.comparison.align.chains import FILTERS as CHAINED
from netweave.comparison.align.chains import chain_from
from netweave.comparison.align.weights import filter_shape, stand_in
from netweave.comparison.metric import Signals, family_of, num_signals
from netweave.comparison.result.comparison import Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    import onnx_ir as ir

    from netweave.comparison.prepare import Side


MAX_GAP = 1500
"""Gaps with more nodes on a side stay unaligned: their alignment would say nothing."""

MAX_CHAIN = 300
"""Longer chains are aligned as other gaps are: in chains, every node is held against every other."""

OF_A_KIND = 2000
"""What it counts that two nodes of a chain are of a kind; that they agree in more only tells them apart."""

KINDS, SIZES, FILTERS, BOTH = range(4)
"""What of two nodes has to agree: what they do; what comes out, too, or what is stored for it, or both."""


POOLINGS = frozenset({"max pool", "average pool"})
"""Families of poolings, which change sizes as filters do."""

DETAILS = (BOTH, FILTERS, SIZES, KINDS)
"""What has to agree, the most first."""


class Extension:
    """Grows an alignment along edges.

    New pairs go first: from the same weights on, a path is followed to its end before the next one is begun.

    Args:
        alignment: The pairs so far, the seeds; grown in place. Of the tensors of its sides, sizes are used.
    """

    def __init__(self, alignment: Alignment) -> None:
        self._alignment = alignment
        self._a, self._b = alignment.sides
        self._signals: deque[tuple[str, str]] = deque()
        self._nodes: deque[tuple[ir.Node, ir.Node]] = deque()
        self._joins: deque[tuple[ir.Node, ir.Node]] = deque()
        self._chains: dict[int, list[ir.Node]] = {}
        self._contexts = Contexts(alignment.a.signals, alignment.b.signals)
        self._depths_a, self._depths_b = _depths(self._a.signals), _depths(self._b.signals)

    def run(self) -> None:
        """Grow along edges: where filters and sizes agree, then one of them, then the kind; fill the gaps.

        Sizes say nothing behind a layer that makes another size than its counterpart; filters do. In a gap,
        a layer that one net alone has stops the growth: layers behind it that there is no other of go first,
        since edges tell branches apart, and the order in which a file writes them does not.
        """
        for detail in DETAILS:
            self._grow(detail)
        while self._fill_unique():
            for detail in DETAILS:
                self._grow(detail)
        if self._fill_chains():
            self._grow(KINDS)
        for detail in (BOTH, SIZES, FILTERS):
            while self._fill_gaps(detail):
                self._grow(KINDS)

    def seed(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> None:
        """Take a pair of nodes in, and queue it."""
        if self._alignment.pair_nodes(a, b, evidence):
            self._nodes.append((a, b))

    def _grow(self, detail: int) -> None:
        partners = self._a.partners
        self._signals.extend((pair.a, pair.b) for pair in self._a.pairs.values() if self._leads_on(pair))
        for node in self._a.signals.nodes:
            partner = partners.get(id(node))
            if partner is not None and (self._is_open(self._a, node) or self._is_open(self._b, partner)):
                self._nodes.append((node, partner))
        while self._signals or self._nodes or self._joins:
            while self._nodes:
                self._around(*self._nodes.popleft())
            if self._signals:
                self._after(*self._signals.popleft(), detail)
            elif self._joins:  # which of its inputs is which may be known by now
                self._before(*self._joins.popleft())

    def _leads_on(self, pair: SignalPair) -> bool:
        """Return whether nodes beside a pair of signals may be left to pair, in both nets."""
        return all(
            bool(_free_readers(side, name)) or (maker is not None and not side.is_paired(maker))
            for side, name in zip((self._a, self._b), (pair.a, pair.b), strict=True)
            for maker in [side.signals.producer.get(name)]
        )

    def _is_open(self, side: Side, node: ir.Node) -> bool:
        """Return whether something that a node, or the end of its chain, reads or makes is left to pair."""
        names = (*side.signals.inputs_of(node), *side.signals.outputs_of(self._chain(side, node)[-1]))
        return not side.pairs.keys() >= {*names, *side.signals.outputs_of(node)}

    def _after(self, name_a: str, name_b: str, detail: int) -> None:
        """Pair the nodes that read a pair of signals, and those that make it, where there is no choice."""
        readers_a, readers_b = self._readers(name_a, name_b)
        for node_a, node_b in self._unique(readers_a, readers_b, detail):
            self.seed(node_a, node_b, Evidence.STRUCTURE)
        producer_a = self._a.signals.producer.get(name_a)
        producer_b = self._b.signals.producer.get(name_b)
        if producer_a is not None and producer_b is not None and stand_in(producer_a, producer_b):
            self.seed(producer_a, producer_b, Evidence.STRUCTURE)

    def _readers(self, name_a: str, name_b: str) -> tuple[list[ir.Node], list[ir.Node]]:
        """Return the unpaired readers of two signals; behind what only one net does first.

        That is padding, and of an input of the net what brings its values into a range.
        """
        readers_a, readers_b = _free_readers(self._a, name_a), _free_readers(self._b, name_b)
        is_input = name_a not in self._a.signals.producer and name_b not in self._b.signals.producer
        for is_first in (_is_pad, *([_is_scaling] if is_input else [])):
            first_a, first_b = any(map(is_first, readers_a)), any(map(is_first, readers_b))
            if first_a and not first_b:
                readers_a = _behind(self._a.signals, readers_a, is_first)
            if first_b and not first_a:
                readers_b = _behind(self._b.signals, readers_b, is_first)
        return readers_a, readers_b

    def _around(self, node_a: ir.Node, node_b: ir.Node) -> None:
        """Pair what a pair of nodes makes, and what it reads."""
        a, b = self._a.signals, self._b.signals
        ends = self._ends(node_a, node_b)
        for out_a, out_b in zip(a.outputs_of(ends[0]), b.outputs_of(ends[1]), strict=False):
            self._pair_signals(out_a, out_b)
        keys = [
            [_producer_key(side, name) for name in side.signals.inputs_of(node) if name not in side.pairs]
            for side, node in ((self._a, node_a), (self._b, node_b))
        ]
        if all(len(set(found)) == len(found) for found in keys):
            self._before(node_a, node_b)
        else:
            self._joins.append((node_a, node_b))

    def _before(self, node_a: ir.Node, node_b: ir.Node) -> None:
        """Pair what a pair of nodes reads, in order."""
        read_a, read_b = self._a.signals.inputs_of(node_a), self._b.signals.inputs_of(node_b)
        ins_a = [s for s in read_a if s not in self._a.pairs]
        ins_b = [s for s in read_b if s not in self._b.pairs]
        if node_a.op_type not in COMMUTATIVE and self._read_otherwise(read_a, read_b):
            return
        if len(ins_a) != len(ins_b):
            return
        if len(ins_a) > 1 and node_a.op_type in COMMUTATIVE:
            # a block and the shortcut around it may look the same; the shortcut is nearer the inputs
            ins_a.sort(key=lambda s: (_producer_key(self._a, s), self._depths_a.get(s, 0)))
            ins_b.sort(key=lambda s: (_producer_key(self._b, s), self._depths_b.get(s, 0)))
        for in_a, in_b in zip(ins_a, ins_b, strict=True):
            if _producer_key(self._a, in_a) == _producer_key(self._b, in_b):
                self._pair_signals(in_a, in_b)

    def _read_otherwise(self, read_a: Sequence[str], read_b: Sequence[str]) -> bool:
        """Return whether what is left to pair has another place, though the rest is no permutation."""
        is_new = [s not in self._a.pairs for s in read_a], [s not in self._b.pairs for s in read_b]
        partners = {self._a.pairs[s].b for s in read_a if s in self._a.pairs}
        return is_new[0] != is_new[1] and partners != {s for s in read_b if s in self._b.pairs}

    def _read_apart(self, node_a: ir.Node, node_b: ir.Node) -> bool:
        """Return whether what two nodes read has counterparts, none of which the other reads.

        Nets convert types where their framework asks for it: a conversion that reads another signal is
        another conversion, not a mistake in what is read.
        """
        partners = {self._a.pairs[s].b for s in self._a.signals.inputs_of(node_a) if s in self._a.pairs}
        read_b = {s for s in self._b.signals.inputs_of(node_b) if s in self._b.pairs}
        return bool(partners and read_b) and partners.isdisjoint(read_b)

    def _ends(self, node_a: ir.Node, node_b: ir.Node) -> tuple[ir.Node, ir.Node]:
        """Return the nodes whose outputs belong together: after filters the last scalings, if cut apart."""
        if family_of(node_a) not in CHAINED or family_of(node_b) not in CHAINED:
            return node_a, node_b
        chain_a, chain_b = self._chain(self._a, node_a), self._chain(self._b, node_b)
        return (node_a, node_b) if len(chain_a) == len(chain_b) else (chain_a[-1], chain_b[-1])

    def _chain(self, side: Side, node: ir.Node) -> list[ir.Node]:
        """Return a node with the scalings behind it (``chain_from``), which is asked for in every pass."""
        if family_of(node) not in CHAINED:
            return [node]
        if id(node) not in self._chains:
            self._chains[id(node)] = chain_from(side.signals, node)
        return self._chains[id(node)]

    def _pair_signals(self, name_a: str, name_b: str) -> None:
        if self._alignment.pair_signals(SignalPair(name_a, name_b, Evidence.STRUCTURE)):
            self._signals.appendleft((name_a, name_b))

    def _unique(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node], detail: int
    ) -> list[tuple[ir.Node, ir.Node]]:
        """Return the pairs whose key occurs once on each side, or that names or what follows tell apart."""
        keyed_a, keyed_b = defaultdict(list), defaultdict(list)
        for node in nodes_a:
            keyed_a[_key(self._a, node, detail)].append(node)
        for node in nodes_b:
            keyed_b[_key(self._b, node, detail)].append(node)
        pairs = []
        for key, group_a in keyed_a.items():
            group_b = keyed_b.get(key, [])
            if len(group_a) == len(group_b) == 1:
                pairs.append((group_a[0], group_b[0]))
            elif group_b:
                pairs += self._distinguished(group_a, group_b)
        return pairs or _dense(nodes_a, nodes_b)

    def _distinguished(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        """Pair nodes of one key: by their names, by what follows them, by the last part of their names."""
        pairs: list[tuple[ir.Node, ir.Node]] = []
        for pair_up in (self._by_name, self._contexts.pairs, self._by_last_name):
            taken = {id(node) for pair in pairs for node in pair}
            left_a, left_b = ([n for n in nodes if id(n) not in taken] for nodes in (nodes_a, nodes_b))
            pairs += pair_up(left_a, left_b) if left_a and left_b else []
        return pairs

    def _by_name(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        names_b = {layer_names(self._b.signals, node): node for node in nodes_b}
        pairs = []
        for node in nodes_a:
            name = layer_names(self._a.signals, node)
            if name and name in names_b:
                pairs.append((node, names_b.pop(name)))
        return pairs

    def _by_last_name(
        self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]
    ) -> list[tuple[ir.Node, ir.Node]]:
        names_a = [_last_name(layer_names(self._a.signals, node)) for node in nodes_a]
        names_b = [_last_name(layer_names(self._b.signals, node)) for node in nodes_b]
        once = {name for name in names_a if name and names_a.count(name) == names_b.count(name) == 1}
        return [(nodes_a[names_a.index(name)], nodes_b[names_b.index(name)]) for name in sorted(once)]

    def _fill_unique(self) -> bool:
        """Pair filters and poolings that a gap has once on either side; say whether anything was paired."""
        changed = False
        for gap_a, gap_b in _gaps(self._alignment):
            if _is_chain(self._a.signals, gap_a) and _is_chain(self._b.signals, gap_b):
                continue  # which are aligned as a whole
            places_a, places_b = _places_of_unique(self._a, gap_a), _places_of_unique(self._b, gap_b)
            common = sorted((i, places_b[key]) for key, i in places_a.items() if key in places_b)
            for i, j in increasing(common):
                changed |= self._guess(gap_a[i], gap_b[j])
        return changed

    def _fill_chains(self) -> bool:
        """Align gaps in which each node reads the one before; say whether anything was paired.

        There the order says what belongs together, also where no layer has the sizes of its counterpart.
        """
        changed = False
        for gap_a, gap_b in _gaps(self._alignment):
            if not (_is_chain(self._a.signals, gap_a) and _is_chain(self._b.signals, gap_b)):
                continue
            for i, j in best_in_order([[self._likeness(a, b) for b in gap_b] for a in gap_a]):
                changed |= self._guess(gap_a[i], gap_b[j])
        return changed

    def _likeness(self, a: ir.Node, b: ir.Node) -> int:
        family = family_of(a)
        if family != family_of(b):
            return 0
        agreeing = sum(_key(self._a, a, detail) == _key(self._b, b, detail) for detail in (SIZES, FILTERS))
        # of a scaling and an activation that changed places, the scaling moved, whichever net is A
        return OF_A_KIND + 2 * agreeing + (family != "affine")

    def _fill_gaps(self, detail: int) -> bool:
        """Align what is left between neighbouring pairs as sequences; say whether anything was paired."""
        changed = False
        for gap_a, gap_b in _gaps(self._alignment):
            if max(len(gap_a), len(gap_b)) > MAX_GAP:
                continue
            keys_a = [_key(self._a, node, detail) for node in gap_a]
            keys_b = [_key(self._b, node, detail) for node in gap_b]
            for i, j in common_subsequence(keys_a, keys_b):
                changed |= self._guess(gap_a[i], gap_b[j])
        return changed

    def _guess(self, a: ir.Node, b: ir.Node) -> bool:
        name = layer_names(self._a.signals, a)
        same = bool(name) and name == layer_names(self._b.signals, b)
        if a.op_type == "Cast" and not same and self._read_apart(a, b):
            return False
        if self._alignment.pair_nodes(a, b, Evidence.NAME if same else Evidence.GUESS):
            self._nodes.append((a, b))
            return True
        return False


def _places_of_unique(side: Side, nodes: Sequence[ir.Node]) -> dict[Hashable, int]:
    """Return the places of filters and poolings that there is one of, by their kind, sizes and filters."""
    places = defaultdict(list)
    for place, node in enumerate(nodes):
        if filter_shape(node) is not None or family_of(node) in POOLINGS:
            places[_key(side, node, BOTH)].append(place)
    return {key: found[0] for key, found in places.items() if len(found) == 1}


def _free_readers(side: Side, signal: str) -> list[ir.Node]:
    return [node for node in side.signals.consumers.get(signal, ()) if not side.is_paired(node)]


def _behind(signals: Signals, nodes: Sequence[ir.Node], is_first: Callable[[ir.Node], bool]) -> list[ir.Node]:
    """Return nodes with the readers of some kind of them in their place, however many follow one another."""
    behind: list[ir.Node] = []
    for node in nodes:
        behind += _behind(signals, signals.readers_of(node), is_first) if is_first(node) else [node]
    return behind


def _is_pad(node: ir.Node) -> bool:
    return node.op_type == "Pad"


def _is_scaling(node: ir.Node) -> bool:
    return node.op_type in {"Add", "Sub", "Mul", "Div"} and family_of(node) == "affine"


def _dense(nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
    """Return the one pair of a dense layer and a convolution that stands for it."""
    pairs = [(a, b) for a in nodes_a for b in nodes_b if family_of(a) != family_of(b) and stand_in(a, b)]
    return pairs if len(pairs) == 1 else []


def _depths(signals: Signals) -> dict[str, int]:
    """Return how many nodes lie on the longest way from an input to each signal."""
    depths: dict[str, int] = {}
    for node in signals.nodes:
        depth = 1 + max((depths.get(name, 0) for name in signals.inputs_of(node)), default=0)
        depths.update(dict.fromkeys(signals.outputs_of(node), depth))
    return depths


def _producer_key(side: Side, signal: str) -> tuple[str, tuple[int, ...]]:
    producer = side.signals.producer.get(signal)
    return ("input" if producer is None else family_of(producer)), _size(side, signal)


def _size(side: Side, signal: str) -> tuple[int, ...]:
    """Return the sizes of a tensor in no order, since the nets may have other layouts, and without ones."""
    shape = side.tensors.shape_of(signal)
    return () if shape is None else tuple(sorted(size for size in shape[1:] if size != 1))


def _key(side: Side, node: ir.Node, detail: int) -> Hashable:
    outputs = side.signals.outputs_of(node)
    size = _size(side, outputs[0]) if detail in {SIZES, BOTH} and outputs else None
    filters = filter_shape(node) if detail in {FILTERS, BOTH} else None
    return family_of(node), size, filters


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
    """Return whether nodes are few, and nobody but the next one reads what each of them makes."""
    return 0 < len(nodes) <= MAX_CHAIN and all(
        signals.readers_of(node) == [after] for node, after in itertools.pairwise(nodes)
    )


def _gaps(alignment: Alignment) -> list[tuple[list[ir.Node], list[ir.Node]]]:
    """Return what both nets have unpaired between neighbouring pairs of the longest chain that runs alike."""
    a, b = alignment.sides
    nodes_a, nodes_b, position_b = a.signals.nodes, b.signals.nodes, b.signals.position
    anchors = [
        (i, position_b[id(a.partners[id(node)])]) for i, node in enumerate(nodes_a) if a.is_paired(node)
    ]
    chain = [(-1, -1), *increasing(anchors), (len(nodes_a), len(nodes_b))]
    gaps = []
    for (i0, j0), (i1, j1) in itertools.pairwise(chain):
        if i1 - i0 == 1 or j1 - j0 == 1:
            continue
        gap_a = [node for node in nodes_a[i0 + 1 : i1] if not a.is_paired(node)]
        gap_b = [node for node in nodes_b[j0 + 1 : j1] if not b.is_paired(node)]
        if gap_a and gap_b:
            gaps.append((gap_a, gap_b))
    return gaps


# Signatures of a node's successors tell apart like layers that begin different branches. The branches of a
# block often begin alike, and files write them in any order. What tells them apart is where they lead: to
# filters of another shape, or to another place of a Concat.

REACHES = (1, 2, 4, 8, 16, 32)
"""Numbers of layers to look ahead, tried in order."""

SEEN_THROUGH = frozenset({"affine", "Pad"})
"""Kinds of nodes that frameworks cut and join in their own ways."""

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean"})


class Contexts:
    """Numbers for the nodes of two nets that are equal where equal nodes follow.

    Args:
        a: The first net.
        b: The second net.
    """

    def __init__(self, a: Signals, b: Signals) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._levels_a, self._levels_b = _Levels(a, self._numbers), _Levels(b, self._numbers)

    def pairs(self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
        """Return the pairs of nodes that alone are followed by the same, the shortest look ahead first."""
        left_a, left_b = list(nodes_a), list(nodes_b)
        pairs: list[tuple[ir.Node, ir.Node]] = []
        for reach in REACHES:
            if not left_a or not left_b:
                break
            keyed_a, keyed_b = self._levels_a.keyed(left_a, reach), self._levels_b.keyed(left_b, reach)
            for key, group_a in keyed_a.items():
                group_b = keyed_b.get(key, [])
                if len(group_a) == len(group_b) == 1:
                    pairs.append((group_a[0], group_b[0]))
            taken = {id(node) for pair in pairs for node in pair}
            left_a = [node for node in left_a if id(node) not in taken]
            left_b = [node for node in left_b if id(node) not in taken]
        return pairs


class _Levels:
    """For each reach, a number for what follows each node of one net up to there.

    Args:
        signals: The net.
        numbers: Numbers given so far, of both nets.
    """

    def __init__(self, signals: Signals, numbers: dict[Hashable, int]) -> None:
        self._numbers = numbers
        self._next = {id(node): _following(signals, node) for node in signals.nodes}
        self._levels = [
            {id(node): self._number((family_of(node), filter_shape(node))) for node in signals.nodes}
        ]

    def keyed(self, nodes: Sequence[ir.Node], reach: int) -> dict[int, list[ir.Node]]:
        """Return nodes by the number of what follows them."""
        while len(self._levels) <= reach:
            self._levels.append(self._deeper(self._levels[-1]))
        keyed = defaultdict(list)
        for node in nodes:
            keyed[self._levels[reach][id(node)]].append(node)
        return keyed

    def _deeper(self, level: dict[int, int]) -> dict[int, int]:
        first = self._levels[0]
        return {
            key: self._number((first[key], tuple(sorted((place, level[reader]) for place, reader in after))))
            for key, after in self._next.items()
        }

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _following(signals: Signals, node: ir.Node) -> list[tuple[int, int]]:
    """Return the nodes that read what a node makes, each by its ``id``, and at which of its places."""
    readers: list[tuple[int, int]] = []
    for name in signals.outputs_of(node):
        for reader in signals.consumers.get(name, ()):
            if family_of(reader) in SEEN_THROUGH and num_signals(reader) == 1:
                readers += _following(signals, reader)
            elif reader.op_type in COMMUTATIVE:
                readers.append((0, id(reader)))
            else:
                readers += [
                    (i, id(reader)) for i, read in enumerate(signals.inputs_of(reader)) if read == name
                ]
    return readers
