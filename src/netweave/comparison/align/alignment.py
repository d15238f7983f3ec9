"""Alignments of two nets."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.metric import ELEMENTWISE, HeldValues
from netweave.comparison.result.comparison import Evidence

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.layout.change import LayoutChange
    from netweave.comparison.metric import Signals
    from netweave.comparison.prepare import Side


@dataclass(frozen=True, slots=True)
class SignalPair:
    """A signal of A and its counterpart in B; ``change`` and ``error`` are known if their values agree."""

    a: str
    b: str
    evidence: Evidence
    change: LayoutChange | None = None
    error: float | None = None

    @property
    def has_equal_values(self) -> bool:
        """True if the two hold the same values, which is more than to stand in the same place."""
        return self.evidence is Evidence.VALUES


@dataclass(slots=True)
class Alignment:
    """Pairs found so far; a signal or node is in one pair at most, the first one found.

    Attributes:
        a: The first net; the alignment gives it pairs of its own.
        b: The second net, likewise.
        evidence: Why two nodes are paired, by ``id`` of A's.
        votes: How often each permutation of axes was found.
        orientation: What was done to the image that B sees, a key of ``ORIENTATIONS``.
    """

    a: Side
    b: Side
    evidence: dict[int, Evidence] = field(default_factory=dict)
    votes: Counter[tuple[int, ...]] = field(default_factory=Counter)
    orientation: str = ""

    def __post_init__(self) -> None:
        self.a, self.b = self.a.unpaired(), self.b.unpaired()
        if ORIENTATIONS[self.orientation].swap:
            # an image with height and width swapped makes maps that are: the first guess for every tensor
            self.votes[0, 1, 3, 2] += 1

    @property
    def sides(self) -> tuple[Side, Side]:
        """Both nets, A first."""
        return self.a, self.b

    def other(self, side: Side) -> Side:
        """Return the other one of the two nets."""
        return self.b if side.is_a else self.a

    def with_tensors_of_a(self, arrays: Mapping[str, np.ndarray]) -> Alignment:
        """Return the same pairs, seen with other tensors in the place of some of A's."""
        seen = copy(self)
        seen.a = self.a.with_tensors(HeldValues(arrays, behind=self.a.tensors))
        return seen

    def with_changes(self, changes: Mapping[str, LayoutChange]) -> Alignment:
        """Return the same pairs, some of B's signals with another layout than is known of them."""
        known = {name: pair for name in changes if (pair := self.b.pairs.get(name)) is not None}
        pairs = {name: replace(pair, change=changes[name]) for name, pair in known.items()}
        seen = copy(self)
        seen.a = replace(self.a, pairs={**self.a.pairs, **{pair.a: pair for pair in pairs.values()}})
        seen.b = replace(self.b, pairs={**self.b.pairs, **pairs})
        return seen

    def pair_signals(self, pair: SignalPair) -> bool:
        """Take a pair in, unless one of its signals is taken; say whether it was."""
        if pair.a in self.a.pairs or pair.b in self.b.pairs:
            return False
        self.a.pairs[pair.a] = self.b.pairs[pair.b] = pair
        if pair.change is not None and pair.change.axes is not None:
            self.votes[pair.change.axes] += 1
        elif pair.change is not None and pair.change.shape is None:
            self.votes[()] += 1
        return True

    def pair_nodes(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> bool:
        """Take a pair in, unless one of its nodes is taken; say whether it was."""
        if id(a) in self.a.partners or id(b) in self.b.partners:
            return False
        self.a.partners[id(a)], self.b.partners[id(b)] = b, a
        self.evidence[id(a)] = evidence
        return True

    def release_nodes(self, a: ir.Node, b: ir.Node) -> None:
        """Take a pair of nodes apart again, and the signals that they make."""
        del self.a.partners[id(a)], self.b.partners[id(b)], self.evidence[id(a)]
        for name in self.a.signals.outputs_of(a):
            pair = self.a.pairs.get(name)
            if pair is not None and pair.b in self.b.signals.outputs_of(b):
                del self.a.pairs[name], self.b.pairs[pair.b]

    def has_equal_values(self, name_a: str) -> bool:
        """Return whether a signal of A has a counterpart in B that holds the same values."""
        pair = self.a.pairs.get(name_a)
        return pair is not None and pair.has_equal_values

    def num_votes(self, change: LayoutChange) -> int:
        """Return how often tensors of these nets were permuted like this."""
        return self.votes[change.axes or ()]

    def hints(self) -> tuple[tuple[int, ...], ...]:
        """Return the permutations of axes found so far, the most frequent first."""
        return tuple(axes for axes, _ in self.votes.most_common() if axes)


# TensorFlow writes PReLU as ``relu(x) + c * relu(-x)``. Where nothing is negative, its first part already
# holds the values of the whole, so values pair that part with the other net's PRelu, and the rest belongs
# to nothing.

MAX_STEPS = 6
"""Nodes of such an activation, at most, between what it reads and the sum that ends it."""


def release_parts(alignment: Alignment) -> None:
    """Take pairs apart, in place, of which one node is only part of an activation."""
    for node_a in alignment.a.signals.nodes:
        node_b = alignment.a.partners.get(id(node_a))
        if node_b is None or node_a.op_type == node_b.op_type:
            continue
        if alignment.evidence[id(node_a)] is not Evidence.VALUES:
            continue
        if not {node_a.op_type, node_b.op_type} <= ELEMENTWISE:
            continue
        if _is_part(alignment.a, node_a) or _is_part(alignment.b, node_b):
            alignment.release_nodes(node_a, node_b)


def _is_part(side: Side, node: ir.Node) -> bool:
    """Return whether an unmatched node joins a node's output with another value of the same input."""
    signals = side.signals
    read = set(signals.inputs_of(node))
    outputs = signals.outputs_of(node)
    readers = [reader for name in outputs for reader in signals.consumers.get(name, ())]
    for reader in readers:
        if not _is_free(side, reader):
            continue
        others = [name for name in signals.inputs_of(reader) if name not in outputs]
        for _ in range(MAX_STEPS):
            if not read.isdisjoint(others):
                return True
            makers = [signals.producer[name] for name in others if name in signals.producer]
            free = [maker for maker in makers if _is_free(side, maker)]
            others = [name for maker in free for name in signals.inputs_of(maker)]
    return False


def _is_free(side: Side, node: ir.Node) -> bool:
    return not side.is_paired(node) and node.op_type in ELEMENTWISE


# Who reads an output reads a class, a coordinate or a map by its place, so a net that gives the same values
# in another order is another net to them. An order that comes with the inputs is none of the net's own:
# what takes BGR may give BGR.


def keeps_order(alignment: Alignment, change: LayoutChange) -> bool:
    """Return whether the entries of an output are in A's order, or in that of the inputs."""
    if change.channel_order is None:
        return True  # no order, or that of an image that is flipped as the input is
    inputs = [alignment.a.pairs.get(str(value.name)) for value in alignment.a.graph.inputs]
    given = {pair.change.channel_order for pair in inputs if pair is not None and pair.change is not None}
    return change.channel_order in given - {None}


def in_order(alignment: Alignment, change: LayoutChange) -> LayoutChange:
    """Return how an output becomes B's, without an order of entries that is B's own (decision 0111)."""
    if keeps_order(alignment, change):
        return change
    return replace(change, orders=tuple(row for row in change.orders if not change.is_channel_axis(row[0])))


def counterpart(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    """Return which output of B is taken for one of A.

    By name where both nets give their outputs the same names and somebody chose these. Otherwise by values,
    where names or places do not contradict: an output that stands in another place and has the name of
    another output of A is not the one that A has under this name.

    Args:
        alignment: Pairs of signals.
        name_a: Name of A's output.
        free_b: Names of B's outputs that are not taken yet.
    """
    by_name = name_a if name_a in free_b else None
    by_value = _by_value(alignment, name_a, free_b)
    if by_value is None or by_value == by_name or _names_decide(alignment):
        return by_name
    is_named = by_name is not None and by_value in output_names(alignment.a.signals)
    return by_name if is_named and not _stand_alike(alignment, name_a, by_value) else by_value


def is_moved(alignment: Alignment, name_a: str, name_b: str) -> bool:
    """Return whether an output stands in another place."""
    return not _stand_alike(alignment, name_a, name_b)


_GENERATED = re.compile(
    r"(output|out|identity|tensor|value|val|var|node|partitionedcall|statefulpartitionedcall|[a-z])?[\W\d_]*",
    re.IGNORECASE,
)
"""Names of outputs that an exporter makes up: a number, and perhaps a word for any value."""


def _names_decide(alignment: Alignment) -> bool:
    """Return whether the outputs of both nets have the same names, and somebody chose these."""
    names_a, names_b = (output_names(side.signals) for side in alignment.sides)
    return set(names_a) == set(names_b) and not any(map(_GENERATED.fullmatch, names_a))


def output_names(signals: Signals) -> list[str]:
    """Return the names of a net's outputs, in order."""
    return [str(value.name) for value in signals.graph.outputs]


def _stand_alike(alignment: Alignment, name_a: str, name_b: str) -> bool:
    """Return whether an output of A and one of B stand at the same place among the outputs."""
    names_a, names_b = output_names(alignment.a.signals), output_names(alignment.b.signals)
    return names_a.index(name_a) == names_b.index(name_b)


def _by_value(alignment: Alignment, name_a: str, free_b: Sequence[str]) -> str | None:
    root_a, root_b = alignment.a.signals.root, alignment.b.signals.root
    pair = alignment.a.pairs.get(root_a.get(name_a, name_a))
    equal = [name for name in free_b if pair is not None and root_b.get(name, name) == pair.b]
    return name_a if name_a in equal else next(iter(equal), None)


def increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest part of ``pairs``, sorted by the first number, in which the second grows too.

    >>> increasing([(0, 0), (1, 5), (2, 1), (3, 2)])
    [(0, 0), (2, 1), (3, 2)]
    """
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, (_, second) in enumerate(pairs):
        place = bisect_left(tails, second)
        before.append(ends[place - 1] if place else -1)
        if place == len(tails):
            tails.append(second)
            ends.append(index)
        else:
            tails[place] = second
            ends[place] = index
    longest = []
    index = ends[-1] if ends else -1
    while index >= 0:
        longest.append(pairs[index])
        index = before[index]
    return longest[::-1]


def common_subsequence(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the places of a longest common subsequence.

    >>> common_subsequence("conv", "cnv")
    [(0, 0), (2, 1), (3, 2)]
    """
    lengths = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            same = a[i] == b[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    places, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return places


def best_in_order(scores: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the places of pairs that run the same way and have the largest sum of scores.

    Args:
        scores: What it counts to pair each of the first with each of the second; 0 if they may not be.

    >>> best_in_order([[2, 1], [1, 2], [0, 3]])
    [(0, 0), (2, 1)]
    """
    rows, columns = len(scores), len(scores[0]) if scores else 0
    sums = [[0] * (columns + 1) for _ in range(rows + 1)]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            paired = sums[i + 1][j + 1] + scores[i][j] if scores[i][j] else 0
            sums[i][j] = max(paired, sums[i + 1][j], sums[i][j + 1])
    places, i, j = [], 0, 0
    while i < rows and j < columns:
        if scores[i][j] and sums[i][j] == sums[i + 1][j + 1] + scores[i][j]:
            places.append((i, j))
            i, j = i + 1, j + 1
        elif sums[i + 1][j] >= sums[i][j + 1]:
            i += 1
        else:
            j += 1
    return places
