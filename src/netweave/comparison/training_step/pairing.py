"""Weights of two trainings paired by what they hold, whatever their names and layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from netweave.comparison.align.sketches import SketchIndex, sketch
from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.layout.tensors import match_stored
from netweave.errors import UsageError
from netweave.graph.summary import list_names

Arrays = Mapping[str, np.ndarray]

SAME = 1e-6
"""Largest relative difference of weights that are copies of each other, one of them perhaps in float32."""


@dataclass(frozen=True, slots=True)
class WeightPair:
    """A weight of A and its counterpart in B.

    Attributes:
        a: Its name in A.
        b: Its name in B.
        change: How A's array, and likewise its gradient, becomes B's.
    """

    a: str
    b: str
    change: LayoutChange


def pair_weights(a: Arrays, b: Arrays, *, name_a: str, name_b: str) -> list[WeightPair]:
    """Return the pairs, in A's order.

    Those of one name and equal values come first, then those of equal values in any layout; weights that are
    all the same number, as a bias of zeros, are paired in order.

    Args:
        a: Weights of A before the first update, in the order of the net.
        b: Those of B.
        name_a: A, for messages.
        name_b: B, for messages.

    Raises:
        UsageError: Weights have no counterpart: the trainings do not start from the same values.
    """
    pairing = _Pairing(a, b)
    pairing.by_name()
    pairing.by_values()
    pairing.in_order()
    left_a = [name for name in a if name not in pairing.pairs]
    left_b = _not_tied([name for name in b if name not in pairing.taken], b, a)
    if left_a or left_b:
        both = ((left_a, name_a), (left_b, name_b))
        left = [f"{list_names(names)} of {net}" for names, net in both if names]
        raise UsageError(
            "the trainings do not start from the same weights: nothing has the values of "
            f"{' and '.join(left)}; copy the weights first (netweave.transfer_weights), then record again"
        )
    return [pairing.pairs[name] for name in a]


@dataclass(slots=True)
class _Pairing:
    a: Arrays
    b: Arrays
    pairs: dict[str, WeightPair] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)

    def by_name(self) -> None:
        """Pair weights of one name with the same values."""
        for name, x in self.a.items():
            if name in self.b and _is_close(x, self.b[name]):
                self._add(WeightPair(name, name, LayoutChange()))

    def by_values(self) -> None:
        """Pair weights of equal values in any layout, the large ones first: they show the layout."""
        index, changes = SketchIndex(), Counter[LayoutChange]()
        for name, x in self.b.items():
            if name not in self.taken:
                index.add(name, x.astype(np.float64))
        for name, x in sorted(self.a.items(), key=lambda item: -item[1].size):
            if name in self.pairs or _is_constant(x):
                continue
            wide = x.astype(np.float64)
            hints = [change for change, _ in changes.most_common()]
            for other in index.like(wide.size, sketch(wide)):
                if other in self.taken:
                    continue
                match = match_stored(wide, self.b[other].astype(np.float64), hints)
                if match is not None and match.error <= SAME:
                    self._add(WeightPair(name, other, match.change))
                    changes[match.change] += 1
                    break

    def in_order(self) -> None:
        """Pair weights that are the same number everywhere, as they come."""
        for name, x in self.a.items():
            if name not in self.pairs and _is_constant(x):
                other = _like(x, [key for key in self.b if key not in self.taken], self.b)
                if other is not None:
                    self._add(WeightPair(name, other, LayoutChange(shape=self.b[other].shape)))

    def _add(self, pair: WeightPair) -> None:
        self.pairs[pair.a] = pair
        self.taken.add(pair.b)


def _not_tied(names: Iterable[str], b: Arrays, a: Arrays) -> list[str]:
    """Return weights that are no copy of one that both nets have: one net may tie what the other copies."""
    return [name for name in names if not any(_is_close(b[name], x) for x in a.values())]


def copies(pairs: Iterable[WeightPair], b: Arrays) -> Iterator[tuple[WeightPair, str]]:
    """Yield pairs whose weight stands once more in B, under another name."""
    taken = {pair.b for pair in pairs}
    for pair in pairs:
        for name, x in b.items():
            if name not in taken and _is_close(b[pair.b], x):
                yield pair, name


def pair_buffers(a: Arrays, b: Arrays, after_a: Arrays, after_b: Arrays) -> list[tuple[str, str]]:
    """Return the moving statistics that belong together: by name, by values after it, then in order."""
    pairs = [(name, name) for name in a if name in b and a[name].shape == b[name].shape]
    if len(pairs) == len(a) == len(b):
        return pairs
    pairs, free = [], list(b)
    for by_value in (True, False):
        for name, x in after_a.items():
            if any(name == old for old, _ in pairs):
                continue
            for other in free:
                fits = after_b[other].shape == x.shape and _is_close(a[name], b[other])
                if fits and (not by_value or _is_close(x, after_b[other])):
                    pairs.append((name, other))
                    free.remove(other)
                    break
    return pairs


def _is_constant(x: np.ndarray) -> bool:
    return x.size < 2 or bool((x == x.reshape(-1)[0]).all())


def _is_close(x: np.ndarray, y: np.ndarray) -> bool:
    if x.shape != y.shape:
        return False
    scale = max(float(np.abs(x).max(initial=0.0)), 1e-30)
    return float(np.abs(x.astype(np.float64) - y).max(initial=0.0)) <= SAME * scale


def _like(x: np.ndarray, names: Iterable[str], arrays: Arrays) -> str | None:
    """Return the first array that is the same number everywhere, and has as many elements."""
    for name in names:
        y = arrays[name]
        if y.size == x.size and _is_constant(y) and (not x.size or x.reshape(-1)[0] == y.reshape(-1)[0]):
            return name
    return None
