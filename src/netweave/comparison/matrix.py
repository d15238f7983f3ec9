"""Several nets at once: every pair compared, and whether the relations agree with one another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, Any

from netweave.comparison.result.verdicts import Verdict

if TYPE_CHECKING:
    from netweave.comparison.result.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Matrix:
    """All pairs of several nets.

    Attributes:
        names: The nets, as the caller names them.
        pairs: The comparison of net ``i`` with net ``j``, for ``i < j``.
    """

    names: tuple[str, ...]
    pairs: dict[tuple[int, int], Comparison]

    @property
    def contradictions(self) -> tuple[tuple[int, int, int], ...]:
        """Nets ``(i, j, k)``: ``i`` equals ``j`` and ``j`` equals ``k``, but ``i`` differs from ``k``."""
        triples = []
        for i, j, k in permutations(range(len(self.names)), 3):
            joined = i < k and self._of(i, j).equal and self._of(j, k).equal
            if joined and self._of(i, k).verdict is Verdict.DIFFERENT:
                triples.append((i, j, k))
        return tuple(triples)

    @property
    def exit_status(self) -> int:
        """0 if all are equal, 1 if any two differ, else 3 if any is not decidable, else 4."""
        return max((c.exit_status for c in self.pairs.values()), key=(0, 4, 3, 1).index, default=0)

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage over all pairs, by name."""
        seconds: dict[str, float] = {}
        for pair in self.pairs.values():
            for stage, taken in pair.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + taken
        return seconds

    def to_json(self) -> dict[str, Any]:
        """Return names and pairs as JSON values."""
        pairs = [{"a": i, "b": j, **comparison.to_json()} for (i, j), comparison in self.pairs.items()]
        return {"names": list(self.names), "pairs": pairs, "exit_status": self.exit_status}

    def _of(self, i: int, j: int) -> Comparison:
        return self.pairs[min(i, j), max(i, j)]
