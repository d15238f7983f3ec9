"""Signals of two nets with the same values: sketches propose, a comparison of all elements decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import SignalPair
from netweave.comparison.align.sketches import SketchIndex, sketch
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy as np

    from netweave.comparison.align.alignment import Alignment

MAX_CANDIDATES = 8
"""Signals of A whose values are held against one of B: sketches that agree are rarely wrong, zeros aside."""

LOOKAHEAD = 16
"""So many signals of A behind the last one with a counterpart are known before the next one is chosen."""


def match_values(alignment: Alignment, look: Callable[[str], object] | None = None) -> None:
    """Pair all signals that hold the same values, in B's order, and the nodes that make them.

    Where several signals of A hold the same values, one made by the same kind of node and not yet taken goes
    first. A net that cannot be held at once is looked at once, side by side with B: what is alike lies at
    much the same place in both nets, and what was looked at long before would have to be computed again.

    Args:
        alignment: The alignment that takes the pairs.
        look: Called with each signal of A while its values are there.
    """
    known = _Known(alignment, look)
    if alignment.a.tensors.is_held:
        known.sketch_all()
    left: list[tuple[str, int, np.ndarray]] = []
    b = alignment.b
    for name in b.signals.names:
        if name in b.pairs or name not in b.tensors:
            continue
        x = b.tensors[name]
        wanted = sketch(x)
        if wanted is None or _is_matched(alignment, known, name, x, wanted) or known.is_complete:
            continue
        left.append((name, x.size, wanted))
    known.sketch_all()
    for name, size, wanted in left:  # by their sketches first: most of these have no counterpart
        _pair_one(alignment, name, known.index.like(size, wanted))


@dataclass(slots=True)
class _Known:
    """A's signals, sketched in their order as far as they were needed so far.

    Attributes:
        alignment: The alignment.
        look: Called with each of them while its values are there.
        index: Their sketches.
        positions: How many of them there are up to each, by name.
        bytes_up_to: Their bytes up to each.
        num_matched: How many there are up to the last one that got a counterpart.
    """

    alignment: Alignment
    look: Callable[[str], object] | None
    index: SketchIndex = field(default_factory=SketchIndex)
    positions: dict[str, int] = field(default_factory=dict)
    bytes_up_to: list[int] = field(default_factory=lambda: [0])
    num_matched: int = 0
    _names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self._names = self.alignment.a.signals.names

    @property
    def is_complete(self) -> bool:
        """True if all are sketched."""
        return len(self.positions) == len(self._names)

    def sketch_all(self) -> None:
        """Sketch the rest."""
        while self._sketch_next(is_ahead=False):
            pass

    def reach_lookahead(self) -> None:
        """Sketch as many signals as there should be behind the last one with a counterpart."""
        while len(self.positions) < self.num_matched + LOOKAHEAD and self.go_on():
            pass

    def go_on(self) -> bool:
        """Sketch one more; say whether there is one, not too far ahead to have it and B's there at once."""
        share = self.alignment.a.tensors.working_bytes
        ahead = self.bytes_up_to[-1] - self.bytes_up_to[self.num_matched]
        return (share is None or ahead < share) and self._sketch_next(is_ahead=True)

    def matched(self, name: str) -> None:
        """Note that a signal got a counterpart."""
        self.num_matched = max(self.num_matched, self.positions.get(name, 0))

    def _sketch_next(self, *, is_ahead: bool) -> bool:
        if self.is_complete:
            return False
        name = self._names[len(self.positions)]
        tensors = self.alignment.a.tensors
        x = tensors.ahead(name) if is_ahead else tensors[name]
        self.index.add(name, x)
        self.positions[name] = len(self.positions) + 1
        self.bytes_up_to.append(self.bytes_up_to[-1] + x.nbytes)
        if self.look is not None:
            self.look(name)
        return True


def _is_matched(alignment: Alignment, known: _Known, name: str, x: np.ndarray, wanted: np.ndarray) -> bool:
    """Return whether a signal of B finds a counterpart among those of A that are near."""
    known.reach_lookahead()
    tried: set[str] = set()
    while True:
        alike = [each for each in known.index.like(x.size, wanted) if each not in tried]
        found = _pair_one(alignment, name, alike)
        if found is not None:
            known.matched(found)
            return True
        tried.update(alike)
        if not known.go_on():
            return False


def _pair_one(alignment: Alignment, name_b: str, alike: Iterable[str]) -> str | None:
    """Pair a signal of B with the likeliest of A that holds its values, and return it; None if none does."""
    a, b = alignment.a, alignment.b
    candidates = [name for name in alike if name not in a.pairs]
    candidates.sort(key=lambda name: _unlikeness(alignment, name, name_b))
    for name_a in candidates[:MAX_CANDIDATES]:
        solved = solve_layout(
            a.tensors[name_a],
            b.tensors[name_b],
            tolerance=LOCAL_TOLERANCE,
            hints=alignment.hints(),
            orientation=alignment.orientation,
        )
        if solved is not None:
            pair = SignalPair(name_a, name_b, Evidence.VALUES, solved[0], solved[1])
            alignment.pair_signals(pair)
            _pair_producers(alignment, pair)
            return name_a
    return None


def _unlikeness(alignment: Alignment, name_a: str, name_b: str) -> tuple[bool, bool, int]:
    """Return what orders signals of A with B's values, the likeliest first: same kind, same input."""
    a, b = alignment.a.signals, alignment.b.signals
    producer_a, producer_b = a.producer.get(name_a), b.producer.get(name_b)
    if producer_a is None or producer_b is None:
        return True, True, 0
    sources = [alignment.b.pairs[s].a for s in b.inputs_of(producer_b) if s in alignment.b.pairs]
    follows = any(s in a.inputs_of(producer_a) for s in sources)
    return family_of(producer_a) != family_of(producer_b), not follows, a.position[id(producer_a)]


def _pair_producers(alignment: Alignment, pair: SignalPair) -> None:
    producer_a = alignment.a.signals.producer.get(pair.a)
    producer_b = alignment.b.signals.producer.get(pair.b)
    if producer_a is not None and producer_b is not None and family_of(producer_a) == family_of(producer_b):
        alignment.pair_nodes(producer_a, producer_b, Evidence.VALUES)
