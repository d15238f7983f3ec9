"""Pairs of stored arrays of A and B: by their values, then by their place, then by name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.align.sketches import SketchIndex, sketch
from netweave.comparison.layout.stored import match_stored
from netweave.comparison.layout.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from netweave.comparison.layout.change import LayoutChange, LayoutMatch
    from netweave.comparison.stored.arrays import Stored

HALF = 0.5
"""Arrays of which more elements differ are not each other's for what they hold."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An array of A and its counterpart in B, found by their values or only by their names."""

    a: Stored
    b: Stored
    match: LayoutMatch
    by_values: bool

    @property
    def text(self) -> str:
        """The change from A's array to B's, in words; empty if there is none."""
        return describe(self.match.change)


@dataclass(slots=True)
class Pairing:
    """Pairs found so far, and the changes of layout that they show.

    Attributes:
        a: Arrays of A.
        b: Arrays of B.
        b_is_net: B is a net and A is weights alone.
        pairs: Those found, by the key in A.
    """

    a: Sequence[Stored]
    b: Sequence[Stored]
    b_is_net: bool = False
    pairs: dict[str, Pair] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _changes: Counter[LayoutChange] = field(default_factory=Counter)

    def run(self) -> None:
        """Find pairs: large arrays first, since they show the layout that small ones leave open."""
        by_key = {array.key: array for array in self.b}
        index = SketchIndex()
        for key, array in by_key.items():
            index.add(key, array.values)
        for array in sorted(self.a, key=lambda array: -array.values.size):
            alike = index.like(array.values.size, sketch(array.values))
            self._pair(array, [by_key[key] for key in alike], by_values=True)
        for array in self.a:
            self._pair(array, [b for b in self.b if self._stand_alike(array, b)], by_values=True)
        for array in self.a:
            self._pair(array, [b for b in self.b if _alike(array, b)], by_values=False)

    @property
    def only_a(self) -> list[Stored]:
        """Arrays of A without a counterpart."""
        return [array for array in self.a if array.key not in self.pairs]

    @property
    def only_b(self) -> list[Stored]:
        """Arrays of B without a counterpart."""
        return [array for array in self.b if array.key not in self._taken]

    def _pair(self, a: Stored, candidates: Iterable[Stored], *, by_values: bool) -> None:
        """Pair an array with the candidate most like it; one of the same name and place goes first."""
        if a.key in self.pairs:
            return
        free = [b for b in candidates if b.key not in self._taken and b.values.size == a.values.size]
        free.sort(key=lambda b: (not self._stand_alike(a, b), not _alike(a, b), a.role != b.role))
        best: Pair | None = None
        for b in free:
            hints = [change for change, _ in self._changes.most_common()]
            match = match_stored(a.values, b.values, hints, b_is_net=self.b_is_net)
            if match is None or (by_values and match.num_different > HALF * match.num_elements):
                continue
            if best is None or match.num_different < best.match.num_different:
                best = Pair(a, b, match, by_values)
            if match.is_equal:
                break
        if best is not None:
            self.pairs[a.key] = best
            self._taken.add(best.b.key)
            if best.match.is_equal:
                self._changes[best.match.change] += 1

    def _stand_alike(self, a: Stored, b: Stored) -> bool:
        """Return whether other arrays of their two layers are pairs."""
        return any(pair.a.layer == a.layer and pair.b.layer == b.layer for pair in self.pairs.values())


def _alike(a: Stored, b: Stored) -> bool:
    """Return whether two arrays are for the same in layers of the same name."""
    return a.role == b.role and _plain(a.layer) == _plain(b.layer)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
