"""The alignment of two nets: pairs of signals and pairs of nodes, each with its evidence."""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.values import HeldValues

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.layout.change import LayoutChange
    from netweave.comparison.side import Side


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
